//! The files of an earlier run.

use std::fs;

use crate::{
    collective::traffic,
    record::{
        ReadableLines, RowReader, RunMeta,
        read::{CsvRow, RowView},
    },
};

/// A `results.csv`, as each of its readers reads it.
pub(super) fn csv(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.csv");
    fs::write(&path, bytes).expect("written");
    if let Ok(mut rows) = RowReader::open(&path) {
        while let Ok(Some(row)) = rows.read_row::<CsvRow>() {
            recorded(&row);
        }
        let _ = rows.torn_line();
    }
    if let Ok(mut rows) = RowReader::open(&path) {
        while let Ok(Some(_)) = rows.read_row::<RowView>() {}
    }
    readable_lines(bytes);
}

/// Reads the rows that a run continues: each is on a line of its own and has a cell per column.
fn readable_lines(bytes: &[u8]) {
    let found = ReadableLines::read(bytes);
    let columns = found.header.len();
    assert!(found.rows.iter().all(|(_, cells)| cells.len() == columns));
    let numbers = found.rows.iter().map(|(line, _)| line);
    assert!(numbers.clone().is_sorted_by(|a, b| a < b));
    assert!(found.unreadable.is_sorted_by(|a, b| a < b));
    assert!(
        !numbers
            .into_iter()
            .any(|line| found.unreadable.contains(line))
    );
}

/// Makes a record of a row: what was recorded of the case is what the record says.
fn recorded(row: &CsvRow) {
    let Some(record) = row.to_record(&traffic::DEFAULT) else {
        return;
    };
    assert_eq!(record.case.size(), row.size);
    assert_eq!(record.case.counts.param, row.count);
    if let Some(time) = record.time {
        let _ = record.case.bandwidth(time);
    }
    let _ = record.case.impossible();
}

/// A `run.json`: what is read of it is written, and read again.
pub(super) fn run_json(bytes: &[u8]) {
    let Ok(run) = serde_json::from_slice::<RunMeta>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&run).expect("JSON");
    let again: RunMeta = serde_json::from_str(&text).expect("what was written");
    assert_eq!(text, serde_json::to_string(&again).expect("JSON"));
    let _ = run.measured_on();
}
