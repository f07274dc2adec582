//! What logs say, as text: together, the failure, and each run.

use std::fmt::Write;

use super::{
    failure::add_failure,
    proof::Proof,
    reading::{Reading, Run, RunPart},
    report,
};
use crate::units::counted;

/// Files that the text names per run; JSON has more.
const FILES: usize = 4;

/// Writes `reading` as the report that `pxnbench proof` prints.
pub fn text(reading: &Reading) -> String {
    let mut text = report::text(&reading.proof);
    if reading.proof.lines.left_out > 0 {
        let lines = counted(reading.proof.lines.left_out, "line");
        let what = format!(
            "{lines} of other processes left out, because others look like them (RAY_DEDUP_LOGS=0 \
             keeps all)"
        );
        report::add_line(&mut text, "incomplete", what);
    }
    if let Some(failure) = &reading.failure {
        add_failure(&mut text, failure);
    }
    if !reading.runs.is_empty() {
        add_runs(&mut text, reading);
    }
    text
}

fn add_runs(text: &mut String, reading: &Reading) {
    let runs = reading.runs.len() as u64 + reading.runs_left_out;
    let what = format!("{runs} in these logs, judged together above and one by one here:");
    report::add_line(text, "runs", what);
    for (at, run) in reading.runs.iter().enumerate() {
        add_run(text, at + 1, run);
    }
    if reading.runs_left_out > 0 {
        let _ = writeln!(text, "{} more", counted(reading.runs_left_out, "run"));
    }
}

fn add_run(text: &mut String, number: usize, run: &Run) {
    let _ = writeln!(text, "run {number}: {}", parts(run));
    let _ = writeln!(
        text,
        "  PXN: {} ({})",
        run.proof.verdict.label(),
        run.proof.reason.info().name
    );
    let _ = writeln!(text, "  {}", run.proof.reason.info().meaning);
    if let Some(what) = connections(&run.proof) {
        let _ = writeln!(text, "  {what}");
    }
    if let Some(failure) = &run.failure {
        let mut of_run = String::new();
        add_failure(&mut of_run, failure);
        for line in of_run.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
}

fn connections(proof: &Proof) -> Option<String> {
    let kinds = [&proof.send_recv, &proof.collective, &proof.unsorted];
    let sends: u64 = kinds.iter().map(|counts| counts.sends).sum();
    let relayed: u64 = kinds.iter().map(|counts| counts.relayed).sum();
    (sends > 0).then(|| format!("{relayed} of {sends} send connections relayed"))
}

fn parts(run: &Run) -> String {
    let mut names: Vec<String> = run.parts.iter().take(FILES).map(part).collect();
    let more = run.parts.len() as u64 + run.parts_left_out - names.len() as u64;
    if more > 0 {
        names.push(format!("{} more", counted(more, "file")));
    }
    names.join(", ")
}

fn part(part: &RunPart) -> String {
    let file = if part.file.is_empty() {
        "standard input"
    } else {
        &part.file
    };
    format!("{file}, lines {} to {}", part.first_line, part.last_line)
}
