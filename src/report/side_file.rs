//! The rows of a file beside `results.csv`. What is wrong with such a file is noted and does not
//! end the report: the results are there all the same.

use std::path::Path;

use crate::record::{RowError, RowReader};

/// Calls `next` until it says that there is no further row. Notes if there is none at all, or if
/// one cannot be read.
pub(super) fn each_row(
    path: &Path,
    notes: &mut Vec<String>,
    mut next: impl FnMut(&mut RowReader) -> Result<bool, RowError>,
) {
    let name = path.display();
    let mut reader = match RowReader::open(path) {
        Ok(reader) => reader,
        Err(error) => {
            notes.push(format!("{name} is left out: {error}"));
            return;
        }
    };
    let mut has_rows = false;
    loop {
        match next(&mut reader) {
            Ok(true) => has_rows = true,
            Ok(false) => break,
            Err(error) => {
                notes.push(format!(
                    "{name} is shown up to a line that cannot be read: {error}"
                ));
                return;
            }
        }
    }
    let torn_line = reader.torn_line();
    if !has_rows && torn_line.is_none() {
        notes.push(format!("{name} has no rows, so nothing of it is shown"));
    }
    notes.extend(torn_line);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_empty_or_damaged_is_noted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ranks.csv");
        for (text, rows, note) in [
            ("", 0, "ranks.csv has no rows"),
            ("a,b\n", 0, "ranks.csv has no rows"),
            ("a,b\n1,2\n", 1, ""),
            ("a,b\n1,2\n3", 1, "the last line of "),
            ("a,b\n1,2\n3\n4,5\n", 1, "line 3 has 1 cell instead of 2"),
        ] {
            fs::write(&path, text).expect("written");
            let (mut notes, mut read) = (Vec::new(), 0);
            each_row(&path, &mut notes, |reader| {
                let is_row = reader.read_cells()?.is_some();
                read += u32::from(is_row);
                Ok(is_row)
            });
            assert_eq!(read, rows, "{text}");
            assert_eq!(notes.len(), usize::from(!note.is_empty()), "{notes:?}");
            assert!(notes.iter().all(|said| said.contains(note)), "{notes:?}");
        }
    }
}
