//! Training steps that were replayed: what their files say.

use std::path::Path;

use serde::Deserialize;

use super::{
    estimate::{Estimate, LogSums},
    replay_parts::ReplayParts,
    source::Source,
    timeline::{self, TimelineOfRank},
};
use crate::{
    backend::step::StepMode,
    input::{self, InputKind},
    record::RowError,
    replay::{Quartiles, files::TIMELINE_JSON, median, read_steps},
    units::Micros,
};

/// A replay of a training step.
pub(super) struct ReplayedStep {
    /// Its run.
    pub(super) name: String,
    /// What `replay.json` says.
    pub(super) summary: ReplaySummary,
    /// The modes that were timed.
    pub(super) modes: Vec<ModeTimes>,
    /// By rank, the operations of one step.
    pub(super) timelines: Vec<TimelineOfRank>,
    /// The level; the label of its variant, if it is a step of an experiment.
    pub(super) label: String,
    /// The number of ranks; 0 if it is unknown.
    pub(super) ranks: u64,
}

/// What a report shows of `replay.json`.
#[derive(Deserialize)]
pub(super) struct ReplaySummary {
    pub(super) workload: String,
    #[serde(default)]
    pub(super) about: String,
    pub(super) exposed: Option<ExposedTime>,
    /// What collectives and copies take; earlier versions did not write it.
    pub(super) communication: Option<ReplayParts>,
    /// Kinds of collectives; empty in files of earlier versions.
    #[serde(default)]
    pub(super) collectives: Vec<CollectiveTimes>,
    #[serde(default)]
    pub(super) checked: u32,
    #[serde(default)]
    pub(super) wrong: u64,
    #[serde(default)]
    pub(super) wrong_operations: Vec<String>,
    #[serde(default)]
    pub(super) stopped: bool,
}

/// Communication that computation does not hide.
#[derive(Deserialize)]
pub(super) struct ExposedTime {
    pub(super) time_us: f64,
    pub(super) share: f64,
    pub(super) share_interval: Option<(f64, f64)>,
}

/// A kind of collective, alone and in the step.
#[derive(Deserialize)]
pub(super) struct CollectiveTimes {
    pub(super) collective: String,
    pub(super) size_bytes: u64,
    pub(super) r#type: String,
    pub(super) redop: String,
    pub(super) group: String,
    pub(super) ranks: u64,
    pub(super) stream: String,
    pub(super) count: u64,
    pub(super) alone_us: Option<f64>,
    #[serde(rename = "alone_busbw_GBps")]
    pub(super) alone_busbw: Option<f64>,
    pub(super) in_step_us: Option<f64>,
    #[serde(rename = "in_step_busbw_GBps")]
    pub(super) in_step_busbw: Option<f64>,
    pub(super) pxn: Option<String>,
    pub(super) transport: Option<String>,
    pub(super) sends: Option<u64>,
    pub(super) relayed_sends: Option<u64>,
}

/// The times of the steps in a mode.
pub(super) struct ModeTimes {
    pub(super) mode: StepMode,
    /// Timed steps.
    pub(super) steps: usize,
    pub(super) quartiles: Quartiles,
    /// Over the medians of the blocks, in microseconds.
    pub(super) estimate: Estimate,
}

impl ReplayedStep {
    /// Returns the mean time of a mode over the blocks.
    pub(super) fn time(&self, mode: StepMode) -> Option<&Estimate> {
        let found = self.modes.iter().find(|times| times.mode == mode);
        found.map(|times| &times.estimate)
    }
}

/// Reads the replays among `sources`. What is wrong with a file is added to `notes`.
pub(super) fn read(sources: &[Source], notes: &mut Vec<String>) -> Vec<ReplayedStep> {
    let mut all = Vec::new();
    for source in sources.iter().filter(|source| source.is_replay) {
        all.extend(read_one(source, notes));
    }
    all
}

fn read_one(source: &Source, notes: &mut Vec<String>) -> Option<ReplayedStep> {
    let path = source.replay_json();
    let summary = input::read(&path, InputKind::Json)
        .map_err(|error| error.to_string())
        .and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| input::why_no_json(&error))
        });
    let summary: ReplaySummary = match summary {
        Ok(summary) => summary,
        Err(why) => {
            notes.push(format!("{} is left out: {why}", path.display()));
            return None;
        }
    };
    let modes = read_modes(&source.csv, notes).unwrap_or_else(|error| {
        let path = source.csv.display();
        notes.push(format!("{path} is left out: {error}"));
        Vec::new()
    });
    let run = source.run.as_ref();
    let level = run.map(|run| run.level.clone());
    Some(ReplayedStep {
        name: source.name(),
        summary,
        modes,
        timelines: read_timelines(source, notes),
        label: source.label.clone().or(level).unwrap_or_default(),
        ranks: run.map_or(0, |run| run.ranks),
    })
}

fn read_timelines(source: &Source, notes: &mut Vec<String>) -> Vec<TimelineOfRank> {
    let Some(path) = source.file(TIMELINE_JSON) else {
        return Vec::new();
    };
    let bytes = input::read(&path, InputKind::Json).map_err(|error| error.to_string());
    bytes
        .and_then(|bytes| timeline::read(&bytes))
        .unwrap_or_else(|why| {
            notes.push(format!("{} is left out: {why}", path.display()));
            Vec::new()
        })
}

/// Reads the times of each mode. A last line that is cut short is added to `notes`.
fn read_modes(path: &Path, notes: &mut Vec<String>) -> Result<Vec<ModeTimes>, RowError> {
    let (times, torn_line) = read_steps(path)?;
    notes.extend(torn_line);
    let of_mode = |mode| {
        let blocks = times.iter().filter(|((of, _), _)| *of == mode);
        let blocks: Vec<&Vec<f64>> = blocks.map(|(_, times)| times).collect();
        let mut sums = LogSums::default();
        for block in &blocks {
            sums.add(median((*block).clone()).unwrap_or_default());
        }
        let all = blocks.iter().copied().flatten();
        Some(ModeTimes {
            mode,
            steps: all.clone().count(),
            quartiles: Quartiles::new(all.map(|time| Micros(*time)))?,
            estimate: sums.estimate(None)?,
        })
    };
    Ok(StepMode::ALL.into_iter().filter_map(of_mode).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_estimate_of_a_mode_is_over_the_medians_of_its_blocks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("steps.csv");
        let mut text = String::from("workload,level,mode,block,step,time_us\n");
        for (block, times) in [[8.0, 7.0, 100.0], [10.0, 9.0, 11.0], [12.5, 1.0, 13.0]]
            .iter()
            .enumerate()
        {
            for (step, time) in times.iter().enumerate() {
                text += &format!("w,off,overlapped,{block},{step},{time}\n");
            }
        }
        text += "w,off,serial,0,0,50\nw,off,unknown,0,0,1\nw,off,serial,0,1,-1\nw,off,ser";
        fs::write(&path, text).expect("written");
        let mut notes = Vec::new();
        let modes = read_modes(&path, &mut notes).expect("read");
        let found: Vec<_> = modes.iter().map(|one| (one.mode, one.steps)).collect();
        assert_eq!(found, [(StepMode::Serial, 1), (StepMode::Overlapped, 9)]);
        assert_eq!(modes[0].estimate.interval, None);
        let overlapped = &modes[1];
        assert!((overlapped.estimate.value - 10.0).abs() < 1e-9);
        assert_eq!(overlapped.estimate.count, 3);
        assert_eq!(overlapped.quartiles.median_us, Micros(10.0));
        assert_eq!(notes.len(), 1, "{notes:?}");
    }
}
