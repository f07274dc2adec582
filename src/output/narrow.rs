//! The table on a terminal that is too narrow for it: the same rows with fewer columns, and long
//! lines wrapped.
//!
//! It is made from the text of the full table, which is what pipes and files get.

use super::column_heads::{self, CASE, ColumnHead};
use crate::record::RunMeta;

/// The columns that are left out, until the table fits.
const LEFT_OUT: [&str; 8] = [
    "count", "algbw", "root", "i_min", "i_max", "redop", "i_cv%", "type",
];

/// The words behind the cells of a row: the time of day, and that the time is computed.
const TIMESTAMP_WIDTH: usize = 20;
const COMPUTED_WIDTH: usize = 9;

/// Roots get fewer columns than in the full table.
const ROOT_WIDTH: usize = 4;

/// The layout of a table that fits a terminal.
pub(super) struct NarrowTable {
    width: usize,
    /// Each column of the full table, and whether it is shown.
    columns: Vec<(ColumnHead, bool)>,
    /// The first column of the results in place.
    in_place: usize,
}

impl NarrowTable {
    /// Returns the layout for a terminal of `width` columns; `None` if the full table fits.
    pub(super) fn new(width: usize, run: &RunMeta) -> Option<NarrowTable> {
        let full = column_heads::of_row(&run.sweep);
        let mut behind = Vec::new();
        if run.sweep.timestamps {
            behind.push(TIMESTAMP_WIDTH);
        }
        if !run.backend.measures() {
            behind.push(COMPUTED_WIDTH);
        }
        // Two spaces stand between cells, a third or more before each word behind them; the line of
        // names ends with one.
        let gaps = 2 * (full.len() - 1) + behind.len().max(1);
        let cells: usize = full.iter().map(|column| column.width).sum();
        let behind: usize = behind.into_iter().sum();
        if cells + gaps + behind <= width {
            return None;
        }
        let mut columns = Vec::new();
        for mut column in full {
            if column.name == "root" {
                column.width = ROOT_WIDTH;
            }
            columns.push((column, true));
        }
        let half = column_heads::of_buffer_mode(&run.sweep).len();
        let mut table = NarrowTable {
            width,
            columns,
            in_place: CASE.len() + half,
        };
        for name in LEFT_OUT {
            for (column, is_shown) in &mut table.columns {
                *is_shown &= column.name != name;
            }
            if table.row_width() + behind <= width {
                break;
            }
        }
        Some(table)
    }

    /// Returns the width of a row up to its last column.
    fn row_width(&self) -> usize {
        self.shown_width(0..self.columns.len()) - 1
    }

    /// Returns the width of the columns that are shown, with a space before each.
    fn shown_width(&self, columns: std::ops::Range<usize>) -> usize {
        let columns = self.columns[columns].iter();
        let shown = columns.filter(|(_, is_shown)| *is_shown);
        shown.map(|(column, _)| column.width + 1).sum()
    }

    /// Returns the lines above the rows, from those of the full table: the last three are the names
    /// of the columns.
    pub(super) fn head(&self, full: &str) -> String {
        let lines: Vec<&str> = full.lines().collect();
        let above = &lines[..lines.len().saturating_sub(3)];
        above.join("\n") + "\n" + &self.column_heads()
    }

    fn column_heads(&self) -> String {
        let case_width = self.shown_width(0..CASE.len());
        let half_width = self.shown_width(CASE.len()..self.in_place);
        let modes = format!(
            "{:case_width$}{:^half_width$}{:^half_width$}",
            "#", "out-of-place", "in-place"
        );
        let names = self.line(|column| column.name);
        let units = self.line(|column| column.unit);
        format!("{}\n#{}\n#{}\n", modes.trim_end(), &names[1..], &units[1..])
    }

    fn line(&self, text: impl Fn(&ColumnHead) -> &'static str) -> String {
        let mut line = String::new();
        for (column, is_shown) in &self.columns {
            if *is_shown {
                line += &format!(" {:>width$}", text(column), width = column.width);
            }
        }
        line.split_off(1).trim_end().to_owned()
    }

    /// Returns a row, from that of the full table.
    pub(super) fn row(&self, full: &str) -> String {
        let mut words = full.split_whitespace();
        let mut line = String::new();
        for (column, is_shown) in &self.columns {
            let word = words.next().unwrap_or_default();
            if *is_shown {
                line += &format!(" {word:>width$}", width = column.width);
            }
        }
        for word in words {
            line += &format!(" {word}");
        }
        line.split_off(1) + "\n"
    }

    /// Returns a comment line in as many lines as it needs.
    pub(super) fn comment(&self, line: &str) -> String {
        wrap_comment(line, self.width)
    }
}

/// Returns a comment line in as many lines of at most `width` columns as it needs.
pub fn wrap_comment(line: &str, width: usize) -> String {
    let mut text = String::new();
    let mut rest = line;
    let mut indent = "";
    while indent.len() + rest.chars().count() > width {
        let fits = rest.char_indices().nth(width.saturating_sub(indent.len()));
        let end = fits.map_or(rest.len(), |(at, _)| at);
        let Some(space) = rest[..end].rfind(' ').filter(|at| *at > 1) else {
            break;
        };
        text += &format!("{indent}{}\n", rest[..space].trim_end());
        rest = rest[space..].trim_start();
        indent = "#   ";
    }
    text + indent + rest + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{
            BufferMode, CaseShape, Collective,
            data::{DType, RedOp},
        },
        record::{Record, Status},
        units::Bytes,
    };

    const FULL: &str = "  1073741824     268435456     float     sum      -1   4021.6  267.00  \
                        500.62    N/A   4021.6  267.00  500.62    N/A  computed\n";

    /// Returns a run whose times are computed.
    fn run() -> RunMeta {
        serde_json::from_value(serde_json::json!({
            "format": 1, "pxnbench": "", "run_id": "", "started_at": "2026-01-01T00:00:00+00:00", "ended_at": null,
            "end": null, "command": [], "backend": "model", "backend_why": "", "level": "", "network": "", "resources": "",
            "job": null, "step": null, "repeat": 0, "nodes": 1, "ranks": 4, "gpus_per_process": 0, "versions": {},
            "environment": {}, "processes": [], "startup_s": null, "phases": [],
        }))
        .expect("a run")
    }

    #[test]
    fn a_row_fits_the_terminal_and_keeps_its_values() {
        for (width, left_out) in [
            (127, &["268435456"] as &[&str]),
            (100, &["268435456"]),
            (90, &["268435456", "267.00"]),
        ] {
            let table = NarrowTable::new(width, &run()).expect("too narrow");
            let row = table.row(FULL);
            assert!(row.trim_end().len() <= width, "{width}: {row}");
            for line in table.column_heads().lines() {
                assert!(line.len() <= width, "{width}: {line}");
            }
            let expected: Vec<&str> = FULL
                .split_whitespace()
                .filter(|word| !left_out.contains(word))
                .collect();
            assert_eq!(row.split_whitespace().collect::<Vec<_>>(), expected);
        }
        assert!(
            NarrowTable::new(128, &run()).is_none(),
            "the full table fits"
        );
    }

    #[test]
    fn every_cell_of_the_full_table_has_a_column() {
        let mut run = run();
        run.sweep.tuning = true;
        run.sweep.per_iter = true;
        let table = NarrowTable::new(100, &run).expect("too narrow");
        let case = CaseShape {
            collective: Collective::AllReduce,
            dtype: DType::Float,
            redop: Some(RedOp::Sum),
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 2,
        }
        .nearest(Bytes(8));
        let record = Record::new(case, Status::Ok);
        let row = crate::output::table::row(&record, &record, &run.sweep);
        assert_eq!(table.columns.len(), row.split_whitespace().count(), "{row}");
    }

    #[test]
    fn names_stand_above_their_columns() {
        let table = NarrowTable::new(100, &run()).expect("too narrow");
        let heads = table.column_heads();
        let names = heads.lines().nth(1).expect("names");
        let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        let row = table.row(FULL);
        for (name, value) in [
            ("size", "1073741824"),
            ("type", "float"),
            ("busbw", "500.62"),
        ] {
            assert_eq!(ends(names, name), ends(&row, value), "{names}\n{row}");
        }
    }

    #[test]
    fn a_long_comment_is_wrapped() {
        let table = NarrowTable::new(40, &run()).expect("too narrow");
        assert_eq!(
            table.comment("# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 64(factor)"),
            "# nThread 1 nGpus 1 minBytes 8 maxBytes\n#   1073741824 step: 64(factor)\n"
        );
        assert_eq!(table.comment("# short"), "# short\n");
    }
}
