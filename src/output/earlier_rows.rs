//! [`EarlierRows`]: what can be read of a `results.csv` that an earlier run left.

use std::{collections::HashSet, io, path::Path};

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
    /// The numbers of the lines that are there already, with the same times.
    repeated: Vec<u64>,
}

impl EarlierRows {
    /// Reads `whole`, a header and complete lines.
    pub(super) fn read(whole: &[u8], traffic: &'static Traffic) -> EarlierRows {
        let mut found = ReadableLines::read(whole);
        let (mut rows, mut records, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        let (mut seen, mut repeated) = (HashSet::new(), Vec::new());
        for (line, row) in &found.rows {
            let parsed = read::parse_row(row, &found.header).ok();
            let record = parsed.as_ref().and_then(|row| row.to_record(traffic));
            let (Some(parsed), Some(record)) = (parsed, record) else {
                found.unreadable.push(*line);
                continue;
            };
            let mut row: Vec<String> = row.iter().map(str::to_owned).collect();
            if !seen.insert(row.clone()) {
                repeated.push(*line);
                continue;
            }
            rows.push(parsed);
            records.push(record);
            // A file of an earlier version lacks the columns that were added since.
            row.resize(COLUMNS.len(), String::new());
            cells.push(row);
        }
        found.unreadable.sort_unstable();
        let header = csv::header();
        let has_all = found.unreadable.is_empty() && repeated.is_empty();
        let is_as_found = has_all && whole.starts_with(header.as_bytes());
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
            repeated,
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
        let mut left_out = Vec::new();
        if !self.unreadable.is_empty() {
            let lines = lines(&self.unreadable);
            left_out.push(format!(
                "{lines}, which cannot be read, and measuring again what is missing"
            ));
        }
        if !self.repeated.is_empty() {
            let lines = lines(&self.repeated);
            left_out.push(format!("{lines}, which the file has twice"));
        }
        if !left_out.is_empty() {
            let copy = keep_copy(path)?;
            note!(
                "pxnbench: {}: leaving out {}. The file as it was is {}",
                path.display(),
                left_out.join("; leaving out "),
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
