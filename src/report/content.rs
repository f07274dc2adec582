//! [`Content`]: everything that a report is made of.

use std::{panic::resume_unwind, path::PathBuf, thread};

use super::{
    comparison::{self, Comparison},
    doctor::{self, Findings},
    machine::{self, Machine},
    ranks::{self, HeatMap},
    rehearsals::{self, NamedRehearsal},
    replays::{self, ReplayedStep},
    series::{self, Results},
    source::{self, Source},
    stragglers::{self, Stragglers},
    telemetry::{self, Telemetry},
};
use crate::{
    exit::{Code, Failure},
    record,
};

/// What the files of the runs say.
pub(super) struct Content {
    /// The runs as they were named.
    pub(super) names: Vec<String>,
    pub(super) made_at: String,
    pub(super) sources: Vec<Source>,
    pub(super) results: Results,
    /// Training steps that were replayed.
    pub(super) replays: Vec<ReplayedStep>,
    /// What NCCL did on virtual nodes.
    pub(super) rehearsals: Vec<NamedRehearsal>,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) heat_maps: Vec<HeatMap>,
    pub(super) stragglers: Stragglers,
    pub(super) telemetry: Vec<Telemetry>,
    pub(super) doctor: Vec<Findings>,
    pub(super) machines: Vec<Machine>,
    /// Runs that are not described.
    pub(super) runs_left_out: usize,
    /// What is wrong with the files, as sentences.
    pub(super) notes: Vec<String>,
}

impl Content {
    /// Reads all files of the runs.
    ///
    /// # Errors
    ///
    /// Returns an error if there is nothing to report, or if the results cannot be read.
    pub(super) fn read(runs: &[PathBuf]) -> anyhow::Result<Content> {
        source::refuse_twice(runs)?;
        let names = runs.iter().map(|run| run.display().to_string()).collect();
        let (rehearsals, runs) = rehearsals::read(runs)?;
        let runs = &runs[..];
        let sources = source::find(runs)?;
        let (machines, runs_left_out) = machine::describe(&sources);
        let mut notes = Vec::new();
        // Both read all rows, which is what takes time.
        let (results, comparisons) = thread::scope(|scope| {
            let comparisons = scope.spawn(|| comparison::read(runs));
            let results = series::read(&sources, !rehearsals.is_empty(), &mut notes);
            let comparisons = comparisons
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic));
            (results, comparisons)
        });
        let results = results?;
        let replays = replays::read(&sources, &mut notes);
        if results.counts.rows == 0 && replays.is_empty() && rehearsals.is_empty() {
            let what = format!("{}: nothing to report", notes.join("; "));
            return Err(Failure::on_all_ranks(Code::NothingRan, what));
        }
        Ok(Content {
            names,
            made_at: record::now().format("%Y-%m-%d %H:%M:%S %:z").to_string(),
            results,
            replays,
            rehearsals,
            comparisons: comparisons?,
            heat_maps: ranks::read(&sources, &mut notes),
            stragglers: stragglers::read(&sources, &mut notes),
            telemetry: telemetry::read(&sources, &mut notes),
            doctor: doctor::read(&sources, &mut notes),
            machines,
            runs_left_out,
            sources,
            notes,
        })
    }
}
