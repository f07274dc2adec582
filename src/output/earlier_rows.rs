//! [`EarlierRows`]: what can be read of a `results.csv` that an earlier run left.

use std::{io, path::Path};

use super::{csv, kept::keep_copy, whole_file::replace};
use crate::{
    collective::traffic::Traffic,
    record::{
        ReadableLines, Record,
        columns::COLUMNS,
        read::{self, CsvRow},
    },
};

/// What can be read of an earlier CSV.
pub(super) struct EarlierRows {
    pub(super) rows: Vec<CsvRow>,
    pub(super) records: Vec<Record>,
    /// The header of this version, and the rows.
    pub(super) text: String,
    /// Whether the file holds just that.
    is_as_found: bool,
    /// The numbers of the lines that cannot be read.
    unreadable: Vec<u64>,
}

impl EarlierRows {
    /// Reads `whole`, a header and complete lines.
    pub(super) fn read(whole: &[u8], traffic: &'static Traffic) -> EarlierRows {
        let mut found = ReadableLines::read(whole);
        let (mut rows, mut records, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for (line, row) in &found.rows {
            let parsed = read::parse_row(row, &found.header).ok();
            let record = parsed.as_ref().and_then(|row| row.to_record(traffic));
            let (Some(parsed), Some(record)) = (parsed, record) else {
                found.unreadable.push(*line);
                continue;
            };
            rows.push(parsed);
            records.push(record);
            let mut row: Vec<String> = row.iter().map(str::to_owned).collect();
            // A file of an earlier version lacks the columns that were added since.
            row.resize(COLUMNS.len(), String::new());
            cells.push(row);
        }
        found.unreadable.sort_unstable();
        let header = csv::header();
        let is_as_found = found.unreadable.is_empty() && whole.starts_with(header.as_bytes());
        let text = match str::from_utf8(whole) {
            Ok(text) if is_as_found => text.to_owned(),
            _ => header + &csv::to_csv(&cells),
        };
        EarlierRows {
            rows,
            records,
            text,
            is_as_found,
            unreadable: found.unreadable,
        }
    }

    /// Writes the file at `path` anew if it holds something else too.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn make_readable(&self, path: &Path) -> io::Result<()> {
        if self.is_as_found {
            return Ok(());
        }
        if !self.unreadable.is_empty() {
            let copy = keep_copy(path)?;
            note!(
                "pxnbench: {}: leaving out {}, which cannot be read, and measuring again what is missing. The file as it was is {}",
                path.display(),
                lines(&self.unreadable),
                copy.display()
            );
        }
        replace(true, path, &self.text)
    }
}

/// Returns the numbers of lines in words.
fn lines(numbers: &[u64]) -> String {
    const MOST_SHOWN: usize = 5;
    let shown = numbers.iter().take(MOST_SHOWN).map(u64::to_string);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match numbers.len() {
        1 => format!("line {shown}"),
        count if count > MOST_SHOWN => {
            format!("lines {shown} and {} more", count - MOST_SHOWN)
        }
        _ => format!("lines {shown}"),
    }
}
