//! [`Content`]: everything that a report is made of.

use std::path::PathBuf;

use super::{
    comparison,
    machine::{self, Machine},
    ranks::{self, HeatMap},
    series::{self, Results},
    source::{self, Source},
    telemetry::{self, Telemetry},
};
use crate::record;

/// What the files of the runs say.
pub(super) struct Content {
    /// The runs as they were named.
    pub(super) names: Vec<String>,
    pub(super) made_at: String,
    pub(super) sources: Vec<Source>,
    pub(super) results: Results,
    pub(super) comparison: Vec<comparison::Row>,
    pub(super) heat_maps: Vec<HeatMap>,
    pub(super) telemetry: Vec<Telemetry>,
    pub(super) machines: Vec<Machine>,
    /// Runs that are not described.
    pub(super) runs_left_out: usize,
}

impl Content {
    /// Reads all files of the runs.
    ///
    /// # Errors
    ///
    /// Returns an error if there is nothing to report, or if a file cannot be read.
    pub(super) fn read(runs: &[PathBuf]) -> anyhow::Result<Content> {
        let sources = source::find(runs)?;
        let (machines, runs_left_out) = machine::describe(&sources);
        Ok(Content {
            names: runs.iter().map(|run| run.display().to_string()).collect(),
            made_at: record::now().format("%Y-%m-%d %H:%M:%S %:z").to_string(),
            results: series::read(&sources)?,
            comparison: comparison::read(runs)?,
            heat_maps: ranks::read(&sources)?,
            telemetry: telemetry::read(&sources)?,
            machines,
            runs_left_out,
            sources,
        })
    }
}
