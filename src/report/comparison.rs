//! The runs compared: what `comparison.json` says, or what `pxnbench compare` would say of them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::table::{MOST_LISTED, Table, figure, is_are, words};
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
    /// What is not listed.
    left_out: String,
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
    RunsAt::find(run).is_ok_and(|found| found.are_steps && found.runs.len() > 1)
}

/// Compares runs as `pxnbench compare` does. A refusal is shown instead: the runs are reported all the same.
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
        let more = judged.len().saturating_sub(MOST_LISTED);
        Comparison {
            table: table(format!("Ratios of times: {title}"), &judged),
            claimed: table(format!("Differences shown: {title}"), &claimed),
            left_out: match more {
                0 => String::new(),
                _ => format!("{} not listed.", is_are(more, "ratio")),
            },
            refused: String::new(),
            verdicts: verdicts(rows),
            sentences,
            title,
        }
    }
}

fn table(caption: String, rows: &[&ComparisonRow]) -> Table {
    let rows = rows.iter().take(MOST_LISTED);
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
        rows: rows.map(|row| cells(row)).collect(),
    }
}

fn cells(row: &ComparisonRow) -> Vec<String> {
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
    let interval = match (row.ratio_low, row.ratio_high) {
        (Some(low), Some(high)) => format!("{} to {}", figure(Some(low)), figure(Some(high))),
        _ => String::new(),
    };
    vec![
        case.join(", "),
        Bytes(row.size_bytes).to_string(),
        row.label.to_string(),
        row.reference.to_string(),
        figure(row.ratio),
        interval,
        row.blocks.to_string(),
        row.verdict.to_string(),
    ]
}

fn verdicts(rows: &[ComparisonRow]) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::<String, u64>::new();
    for row in rows.iter().filter(|row| row.label != row.reference) {
        *counts.entry(row.verdict.to_string()).or_default() += 1;
    }
    counts.into_iter().collect()
}
