//! The text of a `results.csv`: whether this program wrote it, and how much of it is whole.

use crate::record::columns::COLUMNS;

/// Returns whether `text` begins with a CSV header of this program, of this version or an earlier
/// one. Empty text does, and the beginning of a header: of a run that ended while it wrote it.
pub fn has_own_header(text: &str) -> bool {
    let Some((header, _)) = text.split_once('\n') else {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        return (names.join(",") + "\r").starts_with(text);
    };
    let header = header.strip_suffix('\r').unwrap_or(header);
    let names: Vec<&str> = header.split(',').collect();
    let known = COLUMNS.iter().map(|column| column.name);
    names.len() > 20
        && names.len() <= COLUMNS.len()
        && names.iter().zip(known).all(|(name, known)| *name == known)
}

/// Returns `text` up to the end of its last complete line.
pub fn whole_lines(text: &[u8]) -> &[u8] {
    memchr::memrchr(b'\n', text).map_or(&[], |end| &text[..=end])
}
