//! [`Table`]: a table of a page, and how numbers and names stand in one.

use std::collections::HashSet;

use serde::Serialize;

use crate::units::{counted, significant};

/// Rows of a list: the overview, a comparison, late ranks.
pub(super) const MOST_LISTED: usize = 400;

/// Rows of a table of numbers.
pub(super) const MOST_ROWS: usize = 200;

/// A table. The first cell of each row is its head.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Returns the names of columns.
pub(super) fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns a number with four digits; empty if it is unknown.
pub(super) fn figure(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| significant(value, 4).to_string())
}

/// Returns an interval in words; empty if it is unknown.
pub(super) fn interval(ends: Option<(f64, f64)>) -> String {
    match ends {
        Some((low, high)) => format!("{} to {}", figure(Some(low)), figure(Some(high))),
        None => String::new(),
    }
}

/// Takes the first rows of a list, and notes how many are not listed.
pub(super) fn limited<Row>(mut rows: Vec<Row>, noun: &str, left_out: &mut Vec<String>) -> Vec<Row> {
    if rows.len() > MOST_LISTED {
        let more = rows.len() - MOST_LISTED;
        left_out.push(format!("{} not listed.", is_are(more, noun)));
        rows.truncate(MOST_LISTED);
    }
    rows
}

/// Takes the rows that are too many out of a table, and returns what to say of them.
pub(super) fn end_table(rows: &mut Vec<Vec<String>>) -> Option<String> {
    let is_too_long = rows.len() > MOST_ROWS;
    rows.truncate(MOST_ROWS);
    is_too_long.then(|| format!("The table ends after {MOST_ROWS} rows."))
}

/// Returns `1 row is`, `2 rows are`.
pub(super) fn is_are(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number as u64, noun))
}

/// Returns names of which no two are the same: a name that is there already gets a number.
pub(super) fn distinct(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for name in names {
        let mut own = name.clone();
        let mut number = 1;
        while !seen.insert(own.clone()) {
            number += 1;
            own = format!("{name} ({number})");
        }
        all.push(own);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(figure(Some(1234.56)), "1235");
        assert_eq!(figure(Some(0.000_123_456)), "0.0001235");
        assert_eq!(figure(None), "");
    }

    #[test]
    fn a_table_that_is_too_long_ends_and_says_so() {
        let mut rows = vec![Vec::new(); MOST_ROWS];
        assert_eq!(end_table(&mut rows), None);
        rows.push(Vec::new());
        let sentence = end_table(&mut rows).expect("said");
        assert_eq!(sentence, "The table ends after 200 rows.");
        assert_eq!(rows.len(), MOST_ROWS);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut left_out = Vec::new();
        let kept = limited(vec![0; MOST_LISTED + 2], "proof row", &mut left_out);
        assert_eq!(kept.len(), MOST_LISTED);
        assert_eq!(left_out, ["2 proof rows are not listed."]);
    }

    #[test]
    fn no_two_names_are_the_same() {
        let names = ["off", "auto", "off", "off (2)", "off"].map(str::to_owned);
        assert_eq!(
            distinct(names),
            ["off", "auto", "off (2)", "off (2) (2)", "off (3)"]
        );
    }
}
