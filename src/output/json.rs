//! `run.json` and `results.json`.

use serde_json::{Map, Value, json};

use crate::record::{Record, RunMeta, columns::COLUMNS};

/// `run.json`: what the run was measured on.
pub fn run(run: &RunMeta) -> String {
    let mut text = serde_json::to_string_pretty(run)
        .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    text.push('\n');
    text
}

/// `results.json`: the run, and one object a record with the columns as keys.
pub fn results(run: &RunMeta, records: &[Record]) -> String {
    let rows = records.iter().map(|record| {
        let cells = COLUMNS
            .iter()
            .map(|column| (column.name.to_owned(), (column.get)(run, record).json()));
        Value::Object(cells.collect::<Map<_, _>>())
    });
    let all = json!({ "format": run.format, "run": run, "records": rows.collect::<Vec<_>>() });
    let mut text = serde_json::to_string_pretty(&all)
        .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    text.push('\n');
    text
}
