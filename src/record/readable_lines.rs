//! [`ReadableLines`]: what can be read of a CSV that may be damaged.

/// The rows of a CSV, and the lines that hold none.
#[derive(Debug, Default)]
pub struct ReadableLines {
    /// The names of the columns.
    pub header: csv::StringRecord,
    /// The cells of each row, as many as there are columns, with the number of its line.
    pub rows: Vec<(u64, csv::StringRecord)>,
    /// The numbers of the lines that cannot be read, in order.
    pub unreadable: Vec<u64>,
}

impl ReadableLines {
    /// Reads `text`, a header and whole lines.
    ///
    /// If it is damaged, each line is read by itself. Otherwise a single `"` would hide all rows up
    /// to the next one.
    pub fn read(text: &[u8]) -> ReadableLines {
        ReadableLines::all_of(text).unwrap_or_else(|| ReadableLines::one_by_one(text))
    }

    /// Returns all rows; `None` if one cannot be read.
    fn all_of(text: &[u8]) -> Option<ReadableLines> {
        let mut reader = csv::Reader::from_reader(text);
        let header = reader.headers().ok()?.clone();
        let mut rows = Vec::new();
        let (mut line, mut counted_to) = (1, 0);
        for row in reader.records() {
            let row = row.ok()?;
            // No version wrote a cell of several lines. One has a quotation mark that does not
            // belong there.
            if row.iter().any(|cell| cell.contains('\n')) {
                return None;
            }
            let mut begins = row.position().map_or(0, csv::Position::byte) as usize;
            // Behind a line that ends with two characters, the reader is between them.
            begins += usize::from(text.get(begins) == Some(&b'\n'));
            line += memchr::memchr_iter(b'\n', &text[counted_to..begins]).count() as u64;
            counted_to = begins;
            // The reader takes a lone carriage return for the end of a line; no version wrote one.
            if rows.last().map_or(1, |(before, _)| *before) == line {
                return None;
            }
            rows.push((line, row));
        }
        Some(ReadableLines {
            header,
            rows,
            unreadable: Vec::new(),
        })
    }

    fn one_by_one(text: &[u8]) -> ReadableLines {
        let mut lines = text.split(|byte| *byte == b'\n').zip(1..);
        let header = lines.next().and_then(|(line, _)| cells_of(line));
        let mut found = ReadableLines {
            header: header.unwrap_or_default(),
            ..ReadableLines::default()
        };
        for (line, number) in lines {
            if line.is_empty() || line == b"\r" {
                continue;
            }
            match cells_of(line).filter(|cells| cells.len() == found.header.len()) {
                Some(cells) => found.rows.push((number, cells)),
                None => found.unreadable.push(number),
            }
        }
        found
    }
}

/// Returns the cells of a line; `None` if it is not UTF-8, a quotation has no end, or a carriage
/// return divides it.
fn cells_of(line: &[u8]) -> Option<csv::StringRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(line);
    let mut records = reader.records();
    let cells = records.next()?.ok()?;
    if records.next().is_some() {
        return None;
    }
    let has_open_quotation = line.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
    (!has_open_quotation).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<u64>) {
        let found = ReadableLines::read(text.as_bytes());
        let rows = found.rows.iter();
        let rows = rows.map(|(line, cells)| format!("{line}:{}", &cells[0]));
        (rows.collect(), found.unreadable)
    }

    #[test]
    fn a_damaged_line_hides_no_other_one() {
        let rows = |numbers: &[&str]| numbers.iter().map(|&row| row.to_owned()).collect();
        assert_eq!(
            read("x,y\r\na,\"1,1\"\r\nb,2\r\n"),
            (rows(&["2:a", "3:b"]), vec![])
        );
        assert_eq!(
            read("x,y\r\n\"a,1\r\nb,2\r\nc,\"3,4\"\r\n"),
            (rows(&["3:b", "4:c"]), vec![2])
        );
        assert_eq!(
            read("x,y\na,1\nb\nc,3\n\nd,4,5\n"),
            (rows(&["2:a", "4:c"]), vec![3, 6])
        );
        let bytes = ReadableLines::read(b"x,y\na,1\n\xff,2\nc,3\n");
        assert_eq!((bytes.rows.len(), bytes.unreadable), (2, vec![3]));
        assert_eq!(read(""), (vec![], vec![]));
        // A carriage return alone ends no line.
        assert_eq!(read("x,y\na,1\rb,2\nc,3\r\n"), (rows(&["3:c"]), vec![2]));
        assert_eq!(read("x\ry\n1\n"), (vec![], vec![2]));
    }
}
