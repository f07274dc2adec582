//! `run.json` and `results.json`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::format::{Content, OutputFormat};
use crate::record::{Record, RunMeta, columns::COLUMNS};

/// The format of `run.json`: what the run was measured on.
pub(super) const RUN: OutputFormat = OutputFormat {
    path: |paths| paths.in_folder("run.json"),
    follows_links: false,
    content: Content::Whole(|run, _| pretty(run)),
};

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
