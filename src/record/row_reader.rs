//! [`RowReader`]: the rows of a CSV of this program, one by one, and what is wrong with a line in
//! words.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::spreadsheet::{saved_otherwise, unguarded};
use crate::{
    input::{self, InputFile, InputKind},
    units::{NOT_FINITE, counted},
};

/// The rows of a CSV, so that memory does not grow with their number.
///
/// A run that is killed, or whose disk is full, leaves a last line without an end. If cells are
/// missing there, or cannot be read, it is left out. Otherwise only its last cell may be cut short,
/// and becomes empty. [`RowReader::torn_line`] says so. Any other line that cannot be read is an
/// error.
pub struct RowReader {
    path: PathBuf,
    csv: csv::Reader<InputFile>,
    header: csv::StringRecord,
    row: csv::StringRecord,
    /// The length of a file whose last line has no end; `None` if it has one.
    unended: Option<u64>,
    torn: Option<LeftOut>,
}

/// What is left out of a last line that may be cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOut {
    Line,
    LastCell,
}

/// A line that cannot be read: the rest of a sentence that begins with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError(String);

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<RowError> for io::Error {
    fn from(error: RowError) -> io::Error {
        io::Error::other(error.0)
    }
}

impl From<io::Error> for RowError {
    fn from(error: io::Error) -> RowError {
        RowError(error.to_string())
    }
}

impl RowReader {
    /// Opens the CSV at `path`.
    ///
    /// # Errors
    /// Returns an error if the file or its header cannot be read, or if it is no CSV.
    pub fn open(path: &Path) -> Result<RowReader, RowError> {
        let mut file = input::open(path, InputKind::Rows)?;
        let unended = match file.regular() {
            Some(file) => length_without_end(file)?,
            None => None,
        };
        let mut csv = csv::Reader::from_reader(file);
        let header = csv
            .headers()
            .map_err(|error| in_words(&error, None, path))?;
        if !header.is_empty() && !header.iter().any(is_name_of_column) {
            let line = header.iter().collect::<Vec<_>>().join(",");
            return Err(RowError(match saved_otherwise(line.as_bytes()) {
                Some(how) => format!("it {how}. Save it with commas"),
                None => {
                    "it is not a CSV of this program: its first line names no columns".to_owned()
                }
            }));
        }
        Ok(RowReader {
            path: path.to_owned(),
            header: header.clone(),
            csv,
            row: csv::StringRecord::new(),
            unended,
            torn: None,
        })
    }

    /// Returns the names of the columns.
    pub fn header(&self) -> &csv::StringRecord {
        &self.header
    }

    /// Returns the line on which the row that was read last begins, counted from 1. It opens the
    /// file.
    pub fn line(&self) -> u64 {
        self.row
            .position()
            .map_or(0, |position| line_at(position, &self.path))
    }

    /// Reads the cells of the next row as they stand in the file; `None` behind the last one. A
    /// last cell without an end is empty.
    ///
    /// # Errors
    /// Returns an error if the row cannot be read.
    pub fn read_cells(&mut self) -> Result<Option<&csv::StringRecord>, RowError> {
        match self.csv.read_record(&mut self.row) {
            Ok(true) => {
                if self.is_last_and_unended() {
                    self.leave_last_cell_out();
                }
                Ok(Some(&self.row))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                let error = in_words(&error, Some(&self.header), &self.path);
                self.none_if_torn(error).map(|()| None)
            }
        }
    }

    /// Reads the next row; `None` behind the last one. `R` has the columns that the caller needs: a
    /// [`CsvRow`](super::read::CsvRow), a [`RowView`](super::read::RowView), which borrows its
    /// words from this reader, or a structure of the caller with fields of the same names.
    ///
    /// # Errors
    /// Returns an error if the row cannot be read.
    pub fn read_row<'row, R: Deserialize<'row>>(&'row mut self) -> Result<Option<R>, RowError> {
        if self.read_cells()?.is_none() {
            return Ok(None);
        }
        take_guards_off(&mut self.row);
        // Judged before the row is lent to the caller: afterwards nothing else here may be changed.
        let is_last = self.is_last_and_unended();
        match self.row.deserialize(Some(&self.header)) {
            Ok(row) => Ok(Some(row)),
            Err(_) if is_last => {
                self.torn = Some(LeftOut::Line);
                Ok(None)
            }
            Err(error) => {
                let error = in_words(&error, Some(&self.header), &self.path);
                Err(with_number(error, &self.header, &self.row))
            }
        }
    }

    /// Returns a sentence if the last line, or its last cell, was left out because it is or may be
    /// cut short. It is known once all rows are read.
    pub fn torn_line(&self) -> Option<String> {
        let path = self.path.display();
        self.torn.map(|left_out| match left_out {
            LeftOut::Line => format!(
                "the last line of {path} is left out: it is cut short, because the run was \
                 interrupted while it wrote"
            ),
            LeftOut::LastCell => format!(
                "the last cell of {path} is left out: its line has no end, so that it may be cut \
                 short"
            ),
        })
    }

    fn none_if_torn(&mut self, error: RowError) -> Result<(), RowError> {
        if !self.is_last_and_unended() {
            return Err(error);
        }
        self.torn = Some(LeftOut::Line);
        Ok(())
    }

    fn leave_last_cell_out(&mut self) {
        self.row.truncate(self.row.len().saturating_sub(1));
        self.row.push_field("");
        self.torn = Some(LeftOut::LastCell);
    }

    /// Returns whether the line that was read last is the last one of a file, and has no end.
    fn is_last_and_unended(&self) -> bool {
        let read = self.csv.position().byte();
        self.unended.is_some_and(|length| read >= length)
    }
}

/// Returns the length of a file whose last line has no end. Leaves it at its beginning.
fn length_without_end(file: &mut File) -> io::Result<Option<u64>> {
    let found = file.metadata()?;
    if !found.is_file() || found.len() == 0 {
        return Ok(None);
    }
    let is_ended = ends_with_a_line(file)?;
    file.rewind()?;
    Ok((!is_ended).then_some(found.len()))
}

/// Returns whether the last line of a file that is not empty has an end, of which the second
/// character may be missing.
pub fn ends_with_a_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n" || last == *b"\r")
}

/// Returns whether `cell` could be the name of a column, such as `busbw_GBps`.
fn is_name_of_column(cell: &str) -> bool {
    !cell.is_empty()
        && cell
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Turns the cells of `row` into the texts that were written.
pub(super) fn take_guards_off(row: &mut csv::StringRecord) {
    // Rows with an apostrophe are rare, and this is asked of a million rows.
    if memchr::memchr(b'\'', row.as_slice().as_bytes()).is_some() {
        let position = row.position().cloned();
        *row = row.iter().map(unguarded).collect();
        row.set_position(position);
    }
}

/// Returns what is wrong, with the line, and the column if it is known.
fn in_words(error: &csv::Error, header: Option<&csv::StringRecord>, path: &Path) -> RowError {
    let line = match error.position() {
        Some(position) => format!("line {}", line_at(position, path)),
        None => "a line".to_owned(),
    };
    RowError(match error.kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        csv::ErrorKind::Utf8 { .. } => format!("{line} is not UTF-8"),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!(
            "{line} has {} instead of {expected_len}",
            counted(*len, "cell")
        ),
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| header?.get(field as usize));
            let why = err.kind().to_string();
            match (column, missing_column(&why)) {
                (_, Some(missing)) => format!("it has no column {missing}"),
                (Some(column), None) => format!("{line}, column {column}: {why}"),
                (None, None) => format!("{line}: {why}"),
            }
        }
        _ => format!("{line}: {error}"),
    })
}

/// Returns the number of the line at `position`. Behind a line that ends with two characters, the
/// reader is between them.
fn line_at(position: &csv::Position, path: &Path) -> u64 {
    let mut first = [0];
    // What comes through a pipe is gone when it is read.
    let is_between = path.is_file()
        && File::open(path).is_ok_and(|mut file| {
            let found = file.seek(SeekFrom::Start(position.byte()));
            found.and_then(|_| file.read_exact(&mut first)).is_ok() && first == *b"\n"
        });
    position.line() + u64::from(is_between)
}

/// Names the column of a number that is not finite, which serde does not.
fn with_number(error: RowError, header: &csv::StringRecord, row: &csv::StringRecord) -> RowError {
    let cells = header.iter().zip(row);
    let mut infinite = cells.filter(|(_, cell)| {
        let number = cell.parse::<f64>();
        number.is_ok_and(|number| !number.is_finite())
    });
    match (error.0.strip_suffix(NOT_FINITE), infinite.next()) {
        (Some(line), Some((column, _))) => {
            let line = line.trim_end_matches([':', ' ']);
            RowError(format!("{line}, column {column}: {NOT_FINITE}"))
        }
        _ => error,
    }
}

/// Returns the column that serde misses.
fn missing_column(why: &str) -> Option<&str> {
    let rest = why.strip_prefix("missing field `")?;
    rest.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Row {
        name: String,
        ranks: u32,
    }

    /// Returns the rows of `text`, or what is wrong with them, and what is said of the last line.
    fn read(text: &[u8]) -> (Result<Vec<Row>, String>, Option<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        fs::write(&path, text).expect("written");
        let mut reader = RowReader::open(&path).expect("a header");
        let mut rows = Vec::new();
        loop {
            match reader.read_row::<Row>() {
                Ok(Some(row)) => rows.push(row),
                Ok(None) => return (Ok(rows), reader.torn_line()),
                Err(error) => return (Err(error.to_string()), None),
            }
        }
    }

    #[test]
    fn a_last_line_that_is_cut_short_is_left_out_and_said() {
        let whole = b"name,ranks\r\n'=a,4\r\nb,8\r\n";
        let (rows, torn) = read(whole);
        assert_eq!((rows.expect("rows").len(), torn), (2, None));
        for cut in [
            "name,ranks\na,4\nb",
            "name,ranks\na,4\nb,",
            "name,ranks\na,4\nb,8",
        ] {
            let (rows, torn) = read(cut.as_bytes());
            assert_eq!(rows.expect("rows").len(), 1, "{cut}");
            let sentence = torn.expect("said");
            assert!(
                sentence.contains("x.csv is left out: it is cut short"),
                "{sentence}"
            );
        }
        let (rows, torn) = read(b"name,ranks\r\na,4\r\nb,8\r");
        assert_eq!(
            (rows.expect("rows").len(), torn),
            (2, None),
            "nothing is missing"
        );
    }

    #[test]
    fn a_last_cell_that_may_be_cut_short_is_left_out_and_said() {
        let (rows, torn) = read(b"ranks,name\n4,a\n8,al");
        let rows = rows.expect("rows");
        assert_eq!((rows[1].ranks, rows[1].name.as_str()), (8, ""));
        let sentence = torn.expect("said");
        assert!(
            sentence.contains("the last cell of ") && sentence.contains("x.csv is left out"),
            "{sentence}"
        );
    }

    #[test]
    fn what_is_no_csv_is_a_sentence() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("launch.json");
        for text in [
            "{\n  \"a\": 1,\n  \"b\": [2, 3]\n}\n",
            "{\"a\": 1, \"b\": 2}\n",
            "# all_reduce\n",
        ] {
            fs::write(&path, text).expect("written");
            let why = RowReader::open(&path).err().expect("no CSV").to_string();
            assert_eq!(
                why,
                "it is not a CSV of this program: its first line names no columns"
            );
        }
    }

    #[test]
    fn other_damage_is_a_sentence_with_the_line() {
        for (text, why) in [
            (
                &b"name,ranks\na,4\nb\nc,5\n"[..],
                "line 3 has 1 cell instead of 2",
            ),
            (
                b"name,ranks\na,4\nb,x\n",
                "line 3, column ranks: invalid digit found in string",
            ),
            (b"name,ranks\n\xff,4\n", "line 2 is not UTF-8"),
            (b"name,level\na,b\n", "it has no column ranks"),
        ] {
            assert_eq!(read(text).0, Err(why.to_owned()));
            let text = String::from_utf8_lossy(text).replace('\n', "\r\n");
            if !text.contains(char::REPLACEMENT_CHARACTER) {
                assert_eq!(read(text.as_bytes()).0, Err(why.to_owned()));
            }
        }
    }
}
