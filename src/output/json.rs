//! `run.json` and `results.json`.

use std::{
    io::{self, Write},
    path::Path,
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    format::{Content, OutputFormat},
    whole_file,
};
use crate::record::{Record, RunMeta, columns::COLUMNS};

/// The format of `run.json`: what the run was measured on.
pub(super) const RUN: OutputFormat = OutputFormat {
    path: |paths| paths.in_folder("run.json"),
    follows_links: false,
    content: Content::OfRun(pretty),
};

/// Describes a run in the `run.json` at `path`, without waiting for the disk.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn describe_at_once(path: &Path, run: &RunMeta) -> io::Result<()> {
    whole_file::write_whole_at_once(path, |file| file.write_all(pretty(run).as_bytes()))
}

/// The format of `results.json`.
pub(super) const RESULTS: OutputFormat = OutputFormat {
    path: |paths| {
        paths
            .json
            .clone()
            .or_else(|| paths.in_folder("results.json"))
    },
    follows_links: true,
    content: Content::Whole(results),
};

/// Returns the text of `results.json`: the run, and one object per record with the columns as keys.
fn results(run: &RunMeta, records: &[Record]) -> String {
    let rows: Vec<Value> = records.iter().map(|record| row(run, record)).collect();
    pretty(&json!({ "format": run.format, "run": run, "records": rows }))
}

fn row(run: &RunMeta, record: &Record) -> Value {
    let mut row = Map::new();
    for column in COLUMNS {
        row.insert(column.name.to_owned(), (column.get)(run, record).json());
    }
    Value::Object(row)
}

fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value)
        .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    text + "\n"
}
