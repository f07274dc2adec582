//! A failure as text.

use std::fmt::Write;

use super::{
    failures::{Failure, Place},
    watchdog::Hang,
};
use crate::{
    nccl_log::report::{add_line, without_controls},
    units::counted,
};

/// Ranks that the text names.
const RANKS: usize = 16;

/// Adds `failure` to a report.
pub fn add_failure(report: &mut String, failure: &Failure) {
    let mut line = |title: &str, what: &str| add_line(report, title, without_controls(what));
    line("failure", &failure.meaning);
    line("what to do", &failure.remedy);
    line("shown by", &described(&failure.shown_by));
    if let Some(first) = &failure.began_at {
        line("began with", &described(first));
    }
    if let Some(returned) = &failure.first_returned
        && Some(returned) != failure.began_at.as_ref()
        && *returned != failure.shown_by
    {
        line("first error", &described(returned));
    }
    if failure.processes > 1 {
        let processes = counted(failure.processes, "process");
        line("reported by", &processes);
    }
    if let Some(hang) = &failure.hang {
        for text in waits(hang) {
            line("waited", &text);
        }
    }
}

/// Returns `h:1, line 12 of r.log: …`.
fn described(place: &Place) -> String {
    let mut text = String::new();
    if !place.process.is_empty() {
        let _ = write!(text, "{}, ", place.process);
    }
    let _ = write!(text, "line {}", place.line);
    if !place.file.is_empty() {
        let _ = write!(text, " of {}", place.file);
    }
    let _ = write!(text, ": {}", place.text);
    text
}

fn waits(hang: &Hang) -> Vec<String> {
    let mut texts = Vec::new();
    for operation in hang.operations.iter().take(RANKS) {
        let verb = if operation.ranks.len() == 1 {
            "waits"
        } else {
            "wait"
        };
        texts.push(format!(
            "{} {verb} in {} number {}",
            ranks(&operation.ranks),
            operation.name,
            operation.sequence
        ));
    }
    if hang.operations.len() > 1 {
        texts.push("The ranks are not in the same operation, so they wait for each other.".into());
    }
    if !hang.not_entered.is_empty() {
        texts.push(format!(
            "{} did not enter the last one",
            ranks(&hang.not_entered)
        ));
    }
    if !hang.behind.is_empty() {
        let named: Vec<&str> = hang.behind.iter().take(RANKS).map(String::as_str).collect();
        texts.push(format!("behind the others: {}", named.join(", ")));
    }
    if !hang.lagging.is_empty() {
        texts.push(format!(
            "PyTorch names {} as behind the others",
            ranks(&hang.lagging)
        ));
    }
    texts
}

fn ranks(ranks: &[u64]) -> String {
    let names: Vec<String> = ranks.iter().take(RANKS).map(u64::to_string).collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    let more = if ranks.len() > RANKS { ", …" } else { "" };
    format!("{noun} {}{more}", names.join(", "))
}
