//! `stragglers.csv`: how late each rank is in each case of the search for stragglers.

use super::{
    csv::{header_of, to_csv},
    format::{Content, OutputFormat},
};
use crate::record::{
    LatenessRow, RunMeta,
    columns::{Cell, Column, csv_cells, names},
};

/// The format of `stragglers.csv`.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: |paths| {
        let is_searched = paths.looks_for_stragglers;
        is_searched.then(|| paths.in_folder("stragglers.csv"))?
    },
    follows_links: false,
    content: Content::OfRun(rows),
};

/// A column of `stragglers.csv`.
type StragglerColumn = Column<RunMeta, LatenessRow>;

/// All columns, in order. New ones are appended.
pub const STRAGGLER_COLUMNS: &[StragglerColumn] = &[
    StragglerColumn {
        name: "collective",
        doc: "collective; the cases are out of place, of the first type, operation and root of \
              the sweep",
        get: |_, row| row.case.collective.name().into(),
    },
    StragglerColumn {
        name: "size_bytes",
        doc: "size in bytes",
        get: |_, row| row.case.size().0.into(),
    },
    StragglerColumn {
        name: "rank",
        doc: "number of the rank; the first one if a process has several, which start together",
        get: |_, row| u64::from(row.rank).into(),
    },
    StragglerColumn {
        name: "host",
        doc: "its host",
        get: |_, row| row.host.as_str().into(),
    },
    StragglerColumn {
        name: "node",
        doc: "number of its node, from 0",
        get: |_, row| u64::from(row.node).into(),
    },
    StragglerColumn {
        name: "device",
        doc: "index and PCI address of its GPU, or `host memory`",
        get: |_, row| row.device.as_str().into(),
    },
    StragglerColumn {
        name: "iterations",
        doc: "observed operations",
        get: |_, row| u64::from(row.iterations).into(),
    },
    StragglerColumn {
        name: "operation_us",
        doc: "time of an operation in microseconds: the median of the ranks, and of the iterations",
        get: |_, row| number(row.operation_us),
    },
    StragglerColumn {
        name: "arrival_us",
        doc: "mean time in microseconds by which it started an operation late; an operation in \
              which it did not counts as 0",
        get: |_, row| number(row.arrival_us),
    },
    StragglerColumn {
        name: "arrival_pct",
        doc: "operations that it started late, in percent",
        get: |_, row| number(row.arrival_pct),
    },
    StragglerColumn {
        name: "transfer_us",
        doc: "mean time in microseconds by which it ended later than the others",
        get: |_, row| number(row.transfer_us),
    },
    StragglerColumn {
        name: "transfer_pct",
        doc: "operations that it ended late, in percent",
        get: |_, row| number(row.transfer_pct),
    },
    StragglerColumn {
        name: "is_straggler",
        doc: "1 if it is late beyond chance and by enough to matter in this case, otherwise 0",
        get: |_, row| Cell::Integer((!row.late.is_empty()).into()),
    },
    StragglerColumn {
        name: "late",
        doc: "how it is late: `arrival`, `transfer` or `arrival+transfer`; empty if \
              `is_straggler` is 0",
        get: |_, row| late(row),
    },
];

/// Returns the ways in which a rank is late.
fn late(row: &LatenessRow) -> Cell {
    if row.late.is_empty() {
        return Cell::Empty;
    }
    let ways: Vec<&str> = row.late.iter().map(|late| late.name()).collect();
    Cell::Text(ways.join("+"))
}

/// Rounds to hundredths: no clock gives more of a microsecond, no count of operations more of a
/// percent.
fn number(value: f64) -> Cell {
    Cell::Number((value * 100.0).round() / 100.0)
}

/// Returns the text of the file.
fn rows(run: &RunMeta) -> String {
    let found = run.stragglers.iter().flat_map(|found| &found.rows);
    let rows: Vec<Vec<String>> = found
        .map(|row| csv_cells(STRAGGLER_COLUMNS, run, row))
        .collect();
    // Writing to memory does not fail.
    header_of(&names(STRAGGLER_COLUMNS)) + &to_csv(&rows)
}
