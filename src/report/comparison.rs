//! The runs compared: what `comparison.json` says, or what `pxnbench compare` would say of them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::table::{Table, figure, interval, limited, words};
use crate::{
    compare::{
        self, ComparisonRow, Dimension, Request,
        folders::RunsAt,
        rows::{self, JSON},
    },
    units::Bytes,
};

/// A comparison as the page shows it.
#[derive(Serialize)]
pub(super) struct Comparison {
    /// Which runs are compared, and by what.
    title: String,
    /// Why nothing is compared; empty if something is.
    refused: String,
    /// What to know of the rows, and what follows from them.
    sentences: Vec<String>,
    /// How many cases have which verdict, without the reference itself.
    verdicts: Vec<(String, u64)>,
    /// All ratios.
    table: Table,
    /// Those that are claimed to be better or worse.
    claimed: Table,
    /// What is not listed of all ratios.
    left_out: String,
    /// What is not listed of those that are claimed.
    claimed_left_out: String,
}

/// Compares the steps below each of `runs`, and several runs with each other.
///
/// # Errors
///
/// Returns an error if a `comparison.json` is there and cannot be read.
pub(super) fn read(runs: &[PathBuf]) -> anyhow::Result<Vec<Comparison>> {
    let mut all = Vec::new();
    for run in runs {
        let saved = run.join(JSON);
        if saved.is_file() {
            let rows = rows::read(&saved)?;
            let by = rows.first().map_or("level", |row| &row.by);
            all.push(Comparison::new(title(&[run], by), &rows, Vec::new()));
        } else if has_several_steps(run) {
            all.push(computed(&[run]));
        }
    }
    if runs.len() > 1 {
        let runs: Vec<&PathBuf> = runs.iter().collect();
        all.push(computed(&runs));
    }
    Ok(all)
}

fn has_several_steps(run: &Path) -> bool {
    RunsAt::find_any(run).is_ok_and(|found| found.are_steps && found.runs.len() > 1)
}

/// Compares runs as `pxnbench compare` does. A refusal is shown instead: the runs are reported all
/// the same.
fn computed(runs: &[&PathBuf]) -> Comparison {
    let request = Request {
        runs: runs.iter().map(|run| (*run).clone()).collect(),
        ..Request::default()
    };
    match compare::summarize(&request) {
        Ok(summary) => {
            let title = title(runs, Dimension::name(summary.by));
            Comparison::new(title, &summary.rows, summary.sentences)
        }
        Err(error) => Comparison {
            refused: format!("{error:#}"),
            ..Comparison::new(title(runs, ""), &[], Vec::new())
        },
    }
}

fn title(runs: &[&PathBuf], by: &str) -> String {
    let what = match runs {
        [one] => format!("The runs in {}", one.display()),
        _ => "The runs with each other".to_owned(),
    };
    if by.is_empty() {
        what
    } else {
        format!("{what}, by {by}")
    }
}

impl Comparison {
    fn new(title: String, rows: &[ComparisonRow], sentences: Vec<String>) -> Comparison {
        let judged: Vec<&ComparisonRow> = rows.iter().filter(|row| row.ratio.is_some()).collect();
        let is_claimed = |row: &&&ComparisonRow| ["better", "worse"].contains(&&*row.verdict);
        let claimed: Vec<&ComparisonRow> = judged.iter().filter(is_claimed).copied().collect();
        let (mut left_out, mut claimed_left_out) = (Vec::new(), Vec::new());
        let judged = limited(judged, "ratio", &mut left_out);
        let claimed = limited(claimed, "difference", &mut claimed_left_out);
        Comparison {
            table: table(format!("Ratios of times: {title}"), &judged),
            claimed: table(format!("Differences shown: {title}"), &claimed),
            left_out: left_out.join(" "),
            claimed_left_out: claimed_left_out.join(" "),
            refused: String::new(),
            verdicts: verdicts(rows),
            sentences,
            title,
        }
    }
}

fn table(caption: String, rows: &[&ComparisonRow]) -> Table {
    Table {
        caption,
        head: words(&[
            "case",
            "size",
            "variant",
            "reference",
            "ratio of times",
            "95 % interval",
            "repetitions",
            "verdict",
        ]),
        rows: rows.iter().map(|row| cells(row)).collect(),
    }
}

fn cells(row: &ComparisonRow) -> Vec<String> {
    let (case, size) = case_and_size(row);
    vec![
        case,
        size,
        row.label.to_string(),
        row.reference.to_string(),
        figure(row.ratio),
        interval(row.ratio_low.zip(row.ratio_high)),
        row.blocks.to_string(),
        row.verdict.to_string(),
    ]
}

/// Returns what a row is of; what is timed of a training step has no size.
fn case_and_size(row: &ComparisonRow) -> (String, String) {
    if !row.workload.is_empty() {
        return (
            format!("{}, {}", row.workload, row.collective),
            String::new(),
        );
    }
    let place = if row.in_place == 1 {
        "in place"
    } else {
        "out of place"
    };
    let mut case: Vec<&str> = vec![&row.collective, &row.r#type];
    if row.redop != "none" {
        case.push(&row.redop);
    }
    case.push(place);
    (case.join(", "), Bytes(row.size_bytes).to_string())
}

fn verdicts(rows: &[ComparisonRow]) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::<String, u64>::new();
    for row in rows.iter().filter(|row| row.label != row.reference) {
        *counts.entry(row.verdict.to_string()).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_that_are_not_listed_are_counted() {
        let row = ComparisonRow {
            label: "b".into(),
            reference: "a".into(),
            verdict: "better".into(),
            ratio: Some(0.5),
            ..ComparisonRow::default()
        };
        let comparison = Comparison::new(String::new(), &vec![row; 402], Vec::new());
        assert_eq!(comparison.claimed.rows.len(), 400);
        assert_eq!(comparison.claimed_left_out, "2 differences are not listed.");
        assert_eq!(comparison.left_out, "2 ratios are not listed.");
    }
}
