//! `telemetry.csv`: one row per GPU and sample.

use std::path::Path;

use super::{
    csv::{header_of, to_csv},
    error::OutputError,
    kept::keep_earlier,
    row_file::{Durability, RowFile},
};
use crate::{
    record::{
        Record, RunMeta,
        columns::{COLUMNS, Cell},
    },
    telemetry::{Origin, Sample, cells, column_names},
};

/// The first column, as in `results.csv`.
const RUN: &str = "run_id";

/// The columns of `results.csv` that tell the case during which a sample was taken.
pub const CASE_KEYS: [&str; 9] = [
    "started_at",
    "collective",
    "level",
    "repeat",
    "size_bytes",
    "type",
    "redop",
    "root",
    "in_place",
];

/// A sample, and the case during which it was taken.
pub struct TelemetryRow<'a> {
    /// The GPU and its host.
    pub origin: Origin<'a>,
    /// The sample.
    pub sample: &'a Sample,
    /// The case; `None` between cases.
    pub case: Option<&'a Record>,
}

/// A `telemetry.csv` that is being written.
pub struct TelemetryCsv(RowFile);

impl TelemetryCsv {
    /// Creates the file `name` in `folder` with its header. An earlier one is kept under another
    /// name.
    ///
    /// # Errors
    /// Returns an error with the path if it cannot be written.
    pub fn create(folder: &Path, name: &str) -> Result<TelemetryCsv, OutputError> {
        let path = folder.join(name);
        let made = keep_earlier(&path)
            .and_then(|()| RowFile::create(&path, header(), Durability::AtTheEnd));
        match made {
            Ok(file) => Ok(TelemetryCsv(file)),
            Err(error) => Err(OutputError::Io(path, error)),
        }
    }

    /// Appends rows of the run `run`. Returns what to say of the file, such as that it cannot be
    /// written.
    pub fn append(&mut self, run: &RunMeta, rows: &[TelemetryRow]) -> Vec<String> {
        let count = rows.len() as u64;
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row_cells(run, row)).collect();
        self.0.append(&to_csv(&rows), count)
    }

    /// Writes what could not be written so far. Returns what to say of the file.
    pub fn finish(&mut self) -> Vec<String> {
        self.0.finish()
    }

    /// Returns a sentence if rows are missing in the file.
    pub fn missing(&self) -> Option<String> {
        self.0.missing()
    }
}

fn header() -> String {
    let mut names = vec![RUN];
    names.extend(column_names());
    names.extend(CASE_KEYS);
    header_of(&names)
}

fn row_cells(run: &RunMeta, row: &TelemetryRow) -> Vec<String> {
    let mut texts = vec![run.run_id.clone()];
    for cell in cells(&row.origin, row.sample) {
        texts.push(cell.csv());
    }
    for key in CASE_KEYS {
        texts.push(case_cell(run, row.case, key).csv());
    }
    texts
}

fn case_cell(run: &RunMeta, case: Option<&Record>, key: &str) -> Cell {
    let column = COLUMNS.iter().find(|column| column.name == key);
    match (column, case) {
        (Some(column), Some(record)) => (column.get)(run, record),
        _ => Cell::Empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_a_column_of_the_results() {
        for key in CASE_KEYS.iter().chain(&[RUN]) {
            assert!(COLUMNS.iter().any(|column| column.name == *key), "{key}");
        }
    }
}
