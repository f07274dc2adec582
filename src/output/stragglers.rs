//! `stragglers.csv`: how late each rank is in each case of the search for stragglers.

use super::{
    csv::{header_of, to_csv},
    format::{Content, OutputFormat},
};
use crate::record::{LatenessRow, RunMeta};

/// The format of `stragglers.csv`.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: |paths| {
        let is_searched = paths.looks_for_stragglers;
        is_searched.then(|| paths.in_folder("stragglers.csv"))?
    },
    follows_links: false,
    content: Content::Whole(|run, _| rows(run)),
};

/// A column of `stragglers.csv`.
pub struct StragglerColumn {
    /// Name.
    pub name: &'static str,
    /// Meaning.
    pub doc: &'static str,
    get: fn(&LatenessRow) -> String,
}

/// All columns, in order. New ones are appended.
pub const STRAGGLER_COLUMNS: &[StragglerColumn] = &[
    StragglerColumn {
        name: "collective",
        doc: "collective; the cases are out of place, of the first type, operation and root of the sweep",
        get: |row| row.case.collective.to_string(),
    },
    StragglerColumn {
        name: "size_bytes",
        doc: "size in bytes",
        get: |row| row.case.size().0.to_string(),
    },
    StragglerColumn {
        name: "rank",
        doc: "number of the rank; the first one if a process has several, which start together",
        get: |row| row.rank.to_string(),
    },
    StragglerColumn {
        name: "host",
        doc: "its host",
        get: |row| row.host.clone(),
    },
    StragglerColumn {
        name: "node",
        doc: "number of its node, from 0",
        get: |row| row.node.to_string(),
    },
    StragglerColumn {
        name: "device",
        doc: "index and PCI address of its GPU, or `host memory`",
        get: |row| row.device.clone(),
    },
    StragglerColumn {
        name: "iterations",
        doc: "observed operations",
        get: |row| row.iterations.to_string(),
    },
    StragglerColumn {
        name: "operation_us",
        doc: "time of an operation in microseconds: the median of the ranks, and of the iterations",
        get: |row| number(row.operation_us),
    },
    StragglerColumn {
        name: "arrival_us",
        doc: "mean time in microseconds by which it started an operation late; an operation in which it did not counts as 0",
        get: |row| number(row.arrival_us),
    },
    StragglerColumn {
        name: "arrival_pct",
        doc: "operations that it started late, in percent",
        get: |row| number(row.arrival_pct),
    },
    StragglerColumn {
        name: "transfer_us",
        doc: "mean time in microseconds by which it ended later than the others",
        get: |row| number(row.transfer_us),
    },
    StragglerColumn {
        name: "transfer_pct",
        doc: "operations that it ended late, in percent",
        get: |row| number(row.transfer_pct),
    },
    StragglerColumn {
        name: "is_straggler",
        doc: "1 if it is late beyond chance and by enough to matter in this case, otherwise 0",
        get: |row| u8::from(row.late.is_some()).to_string(),
    },
    StragglerColumn {
        name: "late",
        doc: "how it is late: `arrival` or `transfer`; empty if `is_straggler` is 0",
        get: |row| {
            row.late
                .map_or(String::new(), |late| late.name().to_owned())
        },
    },
];

fn number(value: f64) -> String {
    format!("{value:.2}")
}

/// Returns the text of the file.
fn rows(run: &RunMeta) -> String {
    let names: Vec<&str> = STRAGGLER_COLUMNS.iter().map(|column| column.name).collect();
    let mut rows = Vec::new();
    for row in run.stragglers.iter().flat_map(|found| &found.rows) {
        let cells = STRAGGLER_COLUMNS.iter().map(|column| (column.get)(row));
        rows.push(cells.collect());
    }
    // Writing to memory does not fail.
    header_of(&names) + &to_csv(&rows).unwrap_or_default()
}
