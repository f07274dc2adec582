//! The table of a tuning.

use std::fmt::Write;

use super::outcome::{CandidateStanding, CandidateVerdict, Outcome, milliseconds};
use crate::{compare::experiment_record::ExperimentRecord, units::counted};

/// Returns the table: a line per candidate.
pub(super) fn text(workload: &str, record: &ExperimentRecord, outcome: &Outcome) -> String {
    let mut text = format!(
        "# Tuning of {workload} in {}: geometric means; the intervals hold for all candidates \
         together with 95 %\n",
        counted(record.blocks(), "block"),
    );
    let labels = outcome.standings.iter().map(|one| one.variant.label.len());
    let width = labels.max().unwrap_or(0).max("candidate".len());
    let _ = writeln!(
        text,
        "# {:<width$} {:>7} {:>12} {:>12}   saved",
        "candidate", "blocks", "step(ms)", "exposed(ms)"
    );
    for standing in &outcome.standings {
        let line = format!(
            "  {:<width$} {:>7} {:>12} {:>12}   {}",
            standing.variant.label,
            standing.blocks,
            milliseconds(standing.step),
            milliseconds(standing.exposed),
            words(standing),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns how much less than the default the candidate takes, its verdict, and why it was
/// eliminated.
fn words(standing: &CandidateStanding) -> String {
    let mut words = Vec::new();
    if let Some(ratio) = standing.ratio {
        let percent = |ratio: f64| 100.0 * (1.0 - ratio);
        words.push(format!(
            "{:.1} % [{:.1}, {:.1}]",
            percent(ratio.ratio),
            percent(ratio.high),
            percent(ratio.low)
        ));
    }
    if standing.verdict != CandidateVerdict::NotShown {
        words.push(standing.verdict.name().to_owned());
    }
    words.extend(
        standing
            .eliminated
            .map(|eliminated| format!("eliminated: {}", eliminated.why)),
    );
    words.join(", ")
}
