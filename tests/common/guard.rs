//! What the check of guard zones has to say of cases in which one rank has a fault.

use std::collections::BTreeMap;

/// A row of a CSV file, by column.
pub type CsvCells = BTreeMap<String, String>;

/// What the check has to say of a case in which rank 1 has a fault.
#[derive(Debug, PartialEq)]
pub enum GuardFinding {
    /// The rank has changed nothing, or what is not checked.
    Nothing,
    /// What it has changed is an element of the receive buffer.
    Data,
    /// What it has changed is elsewhere: the note of the case.
    Note(String),
}

/// Fails the test unless the row of a case with `fault` says what is `expected`.
#[track_caller]
pub fn expect_finding(fault: &str, row: &CsvCells, expected: &GuardFinding) {
    let case = format!("{fault}: {row:?}");
    let (note, wrong) = (&row["note"][..], &row["wrong"][..]);
    match expected {
        GuardFinding::Nothing => {
            assert!(["0", ""].contains(&wrong) && note.is_empty(), "{case}");
            assert_ne!(row["status"], "wrong", "{case}");
        }
        GuardFinding::Data => {
            assert_ne!(wrong, "0", "{case}");
            assert_eq!((note, &row["status"][..]), ("", "wrong"), "{case}");
        }
        GuardFinding::Note(sentence) => {
            assert_eq!(note, sentence, "{case}");
            // A hypercube writes beside the parts of each round, most of which lie inside.
            let is_one = wrong == "1" || row["collective"] == "hypercube";
            assert!(is_one && row["status"] == "wrong", "{case}");
        }
    }
}
