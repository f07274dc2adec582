//! `results.csv`: one row per record, on disk before the next case begins.

use std::{
    fs::File,
    io::{self, Seek, Write},
    path::Path,
};

use super::{
    format::{Content, OutputFormat},
    paths::OutputPaths,
    target,
};
use crate::record::{Record, RunMeta, columns::COLUMNS};

/// The format of `results.csv`.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: OutputPaths::results_csv,
    follows_links: true,
    content: Content::Rows,
};

/// A CSV file that is being written (RFC 4180, a header, dots for decimals).
pub struct Csv {
    file: File,
}

impl Csv {
    /// Creates the file with its header.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn create(path: &Path) -> io::Result<Csv> {
        let mut file = target::create(path)?;
        file.write_all(header().as_bytes())?;
        Ok(Csv { file })
    }

    /// Opens a file that an earlier run left, to continue it. `whole` is its text up to the last
    /// complete line; what comes after was cut short and is dropped. A file of an earlier version
    /// gets the columns that were added since, empty.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn resume(path: &Path, whole: &str) -> io::Result<Csv> {
        let has_all_columns = whole.lines().next() == header().lines().next();
        if !has_all_columns {
            target::replace(true, path, &with_all_columns(whole)?)?;
            let file = File::options().append(true).open(path)?;
            return Ok(Csv { file });
        }
        let mut file = File::options().write(true).open(path)?;
        file.set_len(whole.len() as u64)?;
        file.seek(io::SeekFrom::End(0))?;
        Ok(Csv { file })
    }

    /// Appends a record and waits until it is on disk.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn append(&mut self, run: &RunMeta, record: &Record) -> io::Result<()> {
        let mut cells = Vec::new();
        for column in COLUMNS {
            cells.push((column.get)(run, record).csv());
        }
        // In one write: a reader never sees half a line.
        self.file.write_all(to_csv(&[cells])?.as_bytes())?;
        target::sync(&self.file)
    }
}

/// Returns the first line.
fn header() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    header_of(&names)
}

/// Returns the line of these column names, which contain nothing that has to be quoted.
pub(super) fn header_of(names: &[&str]) -> String {
    names.join(",") + "\r\n"
}

/// Renders rows as CSV.
pub(super) fn to_csv(rows: &[Vec<String>]) -> io::Result<String> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Returns the text of a file of an earlier version with all columns of this one.
fn with_all_columns(whole: &str) -> io::Result<String> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(whole.as_bytes());
    let mut rows = Vec::new();
    for record in reader.records() {
        let mut row: Vec<String> = record?.iter().map(str::to_owned).collect();
        row.resize(COLUMNS.len(), String::new());
        rows.push(row);
    }
    Ok(header() + &to_csv(&rows)?)
}
