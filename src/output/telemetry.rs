//! `telemetry.csv`: one row per GPU and sample.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    csv::to_csv,
    files::keep_earlier,
    target::{self, OutputError},
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
pub struct TelemetryCsv {
    path: PathBuf,
    file: File,
}

impl TelemetryCsv {
    /// Creates the file `name` in `folder` with its header. An earlier one is kept under another name.
    ///
    /// # Errors
    /// Returns an error with the path if it cannot be written.
    pub fn create(folder: &Path, name: &str) -> Result<TelemetryCsv, OutputError> {
        let path = folder.join(name);
        match open(&path) {
            Ok(file) => Ok(TelemetryCsv { path, file }),
            Err(error) => Err(OutputError::Io(path, error)),
        }
    }

    /// Appends rows of the run `run`.
    ///
    /// # Errors
    /// Returns an error with the path if the disk is full or gone.
    pub fn append(&mut self, run: &RunMeta, rows: &[TelemetryRow]) -> Result<(), OutputError> {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row_cells(run, row)).collect();
        // In one write: a reader never sees half a line.
        let written = to_csv(&rows).and_then(|text| self.file.write_all(text.as_bytes()));
        written.map_err(|error| OutputError::Io(self.path.clone(), error))
    }
}

fn open(path: &Path) -> io::Result<File> {
    keep_earlier(path)?;
    let mut file = target::create(path)?;
    let mut names = vec![RUN];
    names.extend(column_names());
    names.extend(CASE_KEYS);
    // The names contain nothing that has to be quoted.
    file.write_all((names.join(",") + "\r\n").as_bytes())?;
    Ok(file)
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
