//! `results.csv`: one row a record, on disk before the next case begins.

use std::{
    fs::File,
    io::{self, Seek, Write},
    path::Path,
};

use super::target;
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
        let mut csv = Csv {
            file: target::create(path)?,
        };
        csv.file.write_all(header().as_bytes())?;
        Ok(csv)
    }

    /// Opens a file that an earlier run left, to go on with it. What was read of it is `whole`, which ends with a line;
    /// what comes after was cut short and is dropped. A file of an earlier version gets the columns that came later, empty.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn go_on(path: &Path, whole: &str) -> io::Result<Csv> {
        let header = header();
        if whole.lines().next() != header.lines().next() {
            target::replace(true, path, &widened(whole)?)?;
            return Ok(Csv {
                file: File::options().append(true).open(path)?,
            });
        }
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
        self.file.write_all(text([cells])?.as_bytes())?;
        // A pipe or /dev/stdout cannot be synced, and need not be.
        match self.file.sync_data() {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }
}

/// The first line.
fn header() -> String {
    // Names hold nothing that has to be quoted.
    COLUMNS
        .iter()
        .map(|column| column.name)
        .collect::<Vec<_>>()
        .join(",")
        + "\r\n"
}

/// Rows as the file has them.
fn text<Row: Iterator<Item = String>>(rows: impl IntoIterator<Item = Row>) -> io::Result<String> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for row in rows {
        writer.write_record(row.collect::<Vec<_>>())?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// A file of an earlier version, with the columns of this one.
fn widened(whole: &str) -> io::Result<String> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(whole.as_bytes());
    let rows = reader.records().collect::<Result<Vec<_>, _>>()?;
    let wide = |row: &csv::StringRecord| {
        let cells: Vec<String> = row.iter().map(str::to_owned).collect();
        cells
            .into_iter()
            .chain(std::iter::repeat(String::new()))
            .take(COLUMNS.len())
    };
    Ok(header() + &text(rows.iter().map(wide))?)
}
