//! What the page says of all runs together, as sentences.

use crate::{
    report::{
        content::Content, machine::Machine, rehearsal_section, series::Counts, source::Source,
    },
    units::counted,
};

/// Returns the title of the page.
pub(super) fn title(content: &Content) -> String {
    match &content.names[..] {
        [one] => format!("NCCL benchmark: {one}"),
        names => format!("NCCL benchmark: {}", counted(names.len() as u64, "run")),
    }
}

/// Returns how the rows and the training steps ended, as sentences.
pub(super) fn outcome(content: &Content) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_sweep = |source: &&Source| !source.is_replay;
    let sweeps = content.sources.iter().filter(is_sweep).count();
    if sweeps > 0 {
        sentences.extend(outcome_of_rows(&content.results.counts, sweeps));
    }
    if !content.replays.is_empty() {
        let steps = counted(content.replays.len() as u64, "training step");
        sentences.push(format!("{steps} replayed."));
    }
    let wrong = content.replays.iter().map(|replay| replay.summary.wrong);
    match wrong.fold(0, u64::saturating_add) {
        0 => {}
        wrong => sentences.push(format!(
            "{} in the collectives of training steps.",
            counted(wrong, "wrong element")
        )),
    }
    sentences.extend(rehearsal_section::outcome(&content.rehearsals));
    sentences
}

fn outcome_of_rows(counts: &Counts, sweeps: usize) -> Vec<String> {
    let runs = counted(sweeps as u64, "run");
    let mut sentences = vec![format!("{} in {runs}.", counted(counts.rows, "row"))];
    let kinds = [
        (counts.ok, "measured, and all data were correct"),
        (counts.unchecked, "measured, data not checked"),
        (counts.computed, "computed by a model, not measured"),
        (counts.waived, "waived: they could not run here"),
    ];
    for (count, what) in kinds {
        if count > 0 {
            sentences.push(format!("{}: {what}.", counted(count, "row")));
        }
    }
    if counts.wrong > 0 {
        sentences.push(format!(
            "{} with wrong data: {}.",
            counted(counts.wrong, "row"),
            counted(counts.wrong_elements, "wrong element")
        ));
    }
    sentences
}

/// Returns the remarks of all runs, each once.
pub(super) fn remarks(machines: &[Machine]) -> Vec<String> {
    let mut all = Vec::new();
    for remark in machines.iter().flat_map(|machine| &machine.remarks) {
        if !all.contains(remark) {
            all.push(remark.clone());
        }
    }
    all
}

/// Returns what the log of each run shows of PXN, by run.
pub(super) fn verdicts_on_pxn(content: &Content) -> Vec<(String, String)> {
    let mut verdicts = Vec::new();
    for source in &content.sources {
        let proof = source.run.as_ref().and_then(|run| run.proof.as_ref());
        if let Some(proof) = proof {
            verdicts.push((source.name(), proof.verdict.clone()));
        }
    }
    verdicts
}

/// Returns the reasons that limited the clocks of GPUs, by run, with the number of samples.
pub(super) fn throttled(content: &Content) -> Vec<(String, u64)> {
    let of_runs = content.telemetry.iter();
    of_runs.flat_map(|one| one.throttled.clone()).collect()
}
