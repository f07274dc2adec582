//! `pxnbench replay --tune`: which settings make a training step fastest.
//!
//! A tuning is an experiment whose variants race as candidates: after each block, candidates that
//! are shown to be slower than another are eliminated, which leaves more time for the others. The
//! default is measured twice in every block and is never eliminated.

mod candidates;
mod files;
mod grid;
mod names;
mod outcome;
mod table;

pub use files::{TUNE_COLUMNS, TuneColumn};
pub use grid::TuneGrid;

use self::{
    candidates::MeasuredCandidates, files::TuneFiles, names::CandidateNames, outcome::Outcome,
};
use super::{request::Request, steps::Experiment};
use crate::{
    exit::{Code, Failure},
    units::counted,
};

/// Races the variants of `request`, of which the first is the default, prints the outcome, and
/// writes `tune.csv` and `tune.json`.
///
/// # Errors
///
/// Returns an error if the folder cannot be used, if the default cannot be measured, or if nothing
/// can be judged.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let mut experiment = Experiment::open(request)?;
    experiment.warm_up()?;
    let mut measured = MeasuredCandidates::new(request.variants.all());
    let first = candidates::warm_up(experiment.record(), &request.folder)?;
    candidates::refuse_overridden_default(&request.variants, &first)?;
    experiment.eliminate(candidates::without_effect(&request.variants, &first))?;
    // A continued tuning has blocks already, and possibly no time for another one.
    measured.read(experiment.record(), &request.folder);
    while experiment.has_another_block()? {
        experiment.run_block()?;
        let eliminated = measured.read(experiment.record(), &request.folder);
        experiment.eliminate(eliminated)?;
        let slower = measured.slower(experiment.record());
        experiment.eliminate(slower)?;
    }
    let record = experiment.record();
    let outcome = Outcome::of(record, &measured);
    let names = CandidateNames::of(&record.variants);
    let sentences = outcome.sentences(&names);
    let files = TuneFiles {
        workload: &first.workload,
        record,
        outcome: &outcome,
        sentences: &sentences,
    };
    print_line!(
        "{}",
        table::text(&first.workload, record, &outcome).trim_end()
    )?;
    for sentence in &sentences {
        print_line!("# {sentence}")?;
    }
    files.write(&request.folder)?;
    say!(
        "pxnbench: all candidates are in {}",
        files::csv_in(&request.folder).display()
    );
    match experiment.failure() {
        Some(failure) => Ok(failure),
        None if outcome.is_judged() => Ok(Code::Fine),
        None => {
            let blocks = counted(record.blocks(), "block");
            let what = format!(
                "no candidate can be judged after {blocks}, since two are the least that show the \
                 spread. Give it more time with --budget, or name other candidates"
            );
            Err(Failure::on_all_ranks(Code::NothingRan, what))
        }
    }
}
