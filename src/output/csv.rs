//! `results.csv`: one row per record, on disk before the next case begins.

use std::{borrow::Cow, io, path::Path};

use super::{
    format::{Content, OutputFormat},
    paths::OutputPaths,
    row_file::{Durability, RowFile},
};
use crate::record::{
    Record, RunMeta,
    columns::{COLUMNS, csv_cells},
};

/// The format of `results.csv`.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: OutputPaths::results_csv,
    follows_links: true,
    content: Content::Rows,
};

/// Creates `results.csv` (RFC 4180, a header, dots for decimals).
///
/// # Errors
/// Returns an error if it cannot be written.
pub(super) fn create(path: &Path) -> io::Result<RowFile> {
    RowFile::create(path, header(), Durability::EachRow)
}

/// Opens a file that an earlier run left, to continue it. It begins with `text`, and what comes
/// after that is cut off.
///
/// # Errors
/// Returns an error if it cannot be written.
pub(super) fn resume(path: &Path, text: String) -> io::Result<RowFile> {
    RowFile::resume(path, header(), text, Durability::EachRow)
}

/// Returns the row of a record.
pub(super) fn row(run: &RunMeta, record: &Record) -> String {
    to_csv(&[csv_cells(COLUMNS, run, record)])
}

/// Returns the first line.
pub(super) fn header() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    header_of(&names)
}

/// Returns the line of these column names, which contain nothing that has to be quoted.
pub(super) fn header_of(names: &[&str]) -> String {
    names.join(",") + "\r\n"
}

/// Renders rows as CSV. Each is one line, so that a line that is damaged takes no other row with
/// it.
pub(super) fn to_csv(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&quoted(cell));
        }
        text.push_str("\r\n");
    }
    text
}

/// Returns a cell as it is written.
fn quoted(cell: &str) -> Cow<'_, str> {
    if !cell.contains([',', '"', '\r', '\n']) {
        return Cow::Borrowed(cell);
    }
    let cell = cell.replace("\r\n", " ").replace(['\r', '\n'], " ");
    Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_and_is_read_as_it_was() {
        let cells = ["a", "", "b,c", "\"d\" \"", "two\nlines\r\nthree"];
        let row: Vec<String> = cells.iter().map(|&cell| cell.to_owned()).collect();
        let text = to_csv(&[row.clone(), row]);
        assert_eq!(text.lines().count(), 2, "{text}");
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes());
        let read = reader.records().next().expect("a row").expect("valid");
        let expected = ["a", "", "b,c", "\"d\" \"", "two lines three"];
        assert_eq!(read.iter().collect::<Vec<_>>(), expected);
    }
}
