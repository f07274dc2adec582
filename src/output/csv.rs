//! `results.csv`: one row a record, on disk before the next case begins.

use std::{
    fs::File,
    io::{self, Seek, Write},
    path::Path,
};

use crate::record::{Record, RunMeta, columns::COLUMNS};

/// A CSV file that is being written (RFC 4180, a header, dots for decimals).
pub struct Csv {
    file: File,
}

impl Csv {
    /// Creates the file with its header.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(path: &Path) -> io::Result<Csv> {
        let mut csv = Csv { file: File::create(path)? };
        csv.line(COLUMNS.iter().map(|column| column.name.to_owned()))?;
        Ok(csv)
    }

    /// Opens a file that an earlier run left, to go on with it. What was read of it is `whole`, which ends with a line;
    /// what comes after was cut short and is dropped.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn go_on(path: &Path, whole: &str) -> io::Result<Csv> {
        let mut file = File::options().write(true).open(path)?;
        file.set_len(whole.len() as u64)?;
        file.seek(io::SeekFrom::End(0))?;
        Ok(Csv { file })
    }

    /// Appends a record and waits until it is on disk.
    ///
    /// # Errors
    /// Where the disk is full or gone.
    pub fn append(&mut self, run: &RunMeta, record: &Record) -> io::Result<()> {
        self.line(COLUMNS.iter().map(|column| (column.get)(run, record).csv()))
    }

    /// One line, in one write: a reader never sees half of it.
    fn line(&mut self, cells: impl Iterator<Item = String>) -> io::Result<()> {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
        writer.write_record(cells.collect::<Vec<_>>())?;
        self.file.write_all(&writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?)?;
        // A pipe or /dev/stdout cannot be synced, and need not be.
        match self.file.sync_data() {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }
}
