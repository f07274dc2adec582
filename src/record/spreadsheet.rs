//! Text that a spreadsheet leaves alone.
//!
//! A spreadsheet that opens a CSV takes some texts for what they are not: `=1+1` becomes a formula,
//! `mar1` a day in March, `1e5` a number. An apostrophe in front makes them text, in Excel and in
//! LibreOffice Calc ("CSV Injection", OWASP). The reader of the files takes it off again. Text that
//! happens to begin with apostrophes and such a text gets one more, so that nothing is lost. PCI
//! addresses stay as they are, although Excel takes `0000:18:00` for a time of day: scripts join
//! files by them.

use std::borrow::Cow;

/// What a formula begins with, in full width too, and what is skipped before one.
const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// The names of the first columns of results.csv and ranks.csv.
const FIRST_COLUMNS: [&str; 3] = ["run_id", "started_at", "collective"];

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Returns `text` as it is written into a CSV.
pub fn guarded(text: &str) -> Cow<'_, str> {
    if is_taken_for_something_else(text.trim_start_matches('\'')) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the text that was written as `cell`.
pub fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_taken_for_something_else(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

fn is_taken_for_something_else(text: &str) -> bool {
    text.starts_with(FORMULA) || is_number(text) || is_date(text) || is_day(text)
}

/// Returns whether it is a number: `12`, `0012`, `1e5`.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.parse::<f64>().is_ok()
}

/// Returns whether it is a date of two or three numbers in the order of some country: `1-2`,
/// `2026/3/4`, `2.12.12`. Most versions of libraries are none, because nothing in the middle is a
/// month: `2.28.3`.
fn is_date(text: &str) -> bool {
    for separator in ['-', '/', '.', ' '] {
        let parts: Vec<&str> = text.split(separator).collect();
        let numbers: Vec<u32> = parts.iter().filter_map(|part| small_number(part)).collect();
        if numbers.len() != parts.len() {
            continue;
        }
        let is_it = match numbers[..] {
            [a, b] => is_month(a) || is_month(b),
            [a, b, c] => {
                let day_first = is_day_of_month(a) && is_month(b);
                let year_first = is_month(b) && is_day_of_month(c);
                let month_first = is_month(a) && is_day_of_month(b) && separator != '.';
                day_first || year_first || month_first
            }
            _ => false,
        };
        if is_it {
            return true;
        }
    }
    false
}

/// Returns whether it is a month by name with a number: `mar1`, `Sep-01`, `10 dec`.
fn is_day(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let letters: String = lower.chars().filter(char::is_ascii_alphabetic).collect();
    let rest = lower.replacen(&letters, "", 1);
    let rest = rest.trim_matches(['-', '/', '.', ' ']);
    let names_month = letters.len() >= 3
        && MONTHS.iter().any(|month| letters.starts_with(month))
        && (letters.len() <= 4 || FULL_MONTHS.contains(&letters.as_str()));
    names_month && small_number(rest).is_some()
}

const FULL_MONTHS: [&str; 11] = [
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

fn small_number(text: &str) -> Option<u32> {
    let is_short = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| text.parse().ok()).flatten()
}

fn is_month(number: u32) -> bool {
    (1..=12).contains(&number)
}

fn is_day_of_month(number: u32) -> bool {
    (1..=31).contains(&number)
}

/// Returns how another program, such as a spreadsheet, saved the CSV that begins with `line`, as
/// the rest of a sentence that begins with the file; `None` if none did.
pub fn saved_otherwise(line: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(line);
    let is_of_names = |it: &char| it.is_ascii_graphic() && *it != '"';
    let names: String = text
        .chars()
        .filter(|it| is_of_names(it) || *it == '\t')
        .collect();
    let has = |separator: &str| names.starts_with(&FIRST_COLUMNS.join(separator));
    let commas = has(",");
    if !(commas || has(";") || has("\t")) {
        None
    } else if text.contains('\0') {
        Some("was saved by another program as UTF-16, and not as UTF-8")
    } else if !commas {
        Some("was saved by another program without commas between the columns")
    } else if text.starts_with('\u{feff}') {
        Some("was saved by another program with a byte order mark")
    } else if text.contains('"') {
        Some("was saved by another program with quotation marks around its cells")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_spreadsheet_would_change_is_text() {
        for text in [
            "=1+1",
            "+1",
            "-n01",
            "@SUM(A1)",
            "\tx",
            "\r=x",
            "＝1",
            "1e5",
            "0012",
            "12",
            ".5",
            "mar1",
            "SEPT02",
            "3-dec",
            "1-2",
            "2026-11-28",
            "2/12",
            "2.12.12",
            "march10",
        ] {
            assert_eq!(guarded(text), format!("'{text}"));
        }
    }

    #[test]
    fn what_runs_usually_write_stays_as_it_is() {
        for text in [
            "",
            "off",
            "n[1-3]",
            "node-01",
            "NVIDIA H100 80GB HBM3",
            "2.28.3",
            "Open MPI v4.1.4",
            "P2P+NET/IB",
            "not used",
            "2026-11-28T10:15:00+00:00",
            "all_reduce-20261128T101500",
            "'quoted",
            "marlin1",
            "decade",
            "0000:18:00",
            "spread 2",
            "4711x",
            "gpu1",
        ] {
            assert_eq!(guarded(text), text);
            assert_eq!(unguarded(text), text);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "['=+@0-9a-f:./ -]{0,8}") {
            let cell = guarded(&text);
            prop_assert_eq!(unguarded(&cell), text.as_str());
        }

        #[test]
        fn no_cell_of_a_file_begins_a_formula(text in "[=+@＝\\t\\r -]{0,2}\\PC{0,12}[\n\r\",']{0,2}") {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record([&*guarded(&text), "x"]).expect("written");
            let file = writer.into_inner().expect("a file");
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&file[..]);
            let row = reader.records().next().expect("a row").expect("valid");
            prop_assert!(!row[0].starts_with(FORMULA), "{}", &row[0]);
            prop_assert_eq!(unguarded(&row[0]), text.as_str());
        }
    }

    #[test]
    fn what_a_spreadsheet_saved_is_told_from_other_files() {
        let header = [&FIRST_COLUMNS[..], &["backend", "level"]].concat();
        let utf16: Vec<u8> = header
            .join(",")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for (line, said) in [
            (header.join(";").into_bytes(), "without commas"),
            (header.join("\t").into_bytes(), "without commas"),
            (
                format!("\u{feff}{}\r\n", header.join(",")).into_bytes(),
                "byte order mark",
            ),
            (
                format!("\"{}\"", header.join("\",\"")).into_bytes(),
                "quotation marks",
            ),
            ([&b"\xff\xfe"[..], &utf16].concat(), "UTF-16"),
        ] {
            let how = saved_otherwise(&line).expect("another program");
            assert!(how.contains(said), "{how}");
        }
        for line in ["", "my notes\n", "size;time;name\n", "{\"run_id\": 1}\n"] {
            assert_eq!(saved_otherwise(line.as_bytes()), None, "{line}");
        }
        assert_eq!(saved_otherwise(header.join(",").as_bytes()), None);
    }
}
