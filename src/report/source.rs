//! What a report is made of: the runs that its paths stand for.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    compare::folders::{RunFiles, RunsAt},
    exit::{Code, Failure},
    input::{self, InputKind},
    record::{
        RunMeta,
        read::{self, named_twice},
    },
    replay::files::REPLAY_JSON,
};

/// A run, or a step of an experiment.
pub(super) struct Source {
    /// Whether it is the replay of a training step, and not a sweep.
    pub(super) is_replay: bool,
    /// Its CSV: that of the results, or of the steps.
    pub(super) csv: PathBuf,
    /// The folder of its other files.
    pub(super) folder: PathBuf,
    /// What its `run.json` or `replay.json` says; `None` if there is none, or if it cannot be read.
    pub(super) run: Option<RunMeta>,
    /// The name of its variant, if it is a step of an experiment.
    pub(super) label: Option<String>,
}

/// Checks that no path is named twice.
///
/// # Errors
///
/// Returns an error if one is.
pub(super) fn refuse_twice(paths: &[PathBuf]) -> anyhow::Result<()> {
    let Some(path) = named_twice(paths) else {
        return Ok(());
    };
    Err(twice(path))
}

/// Returns the error of a run that is named twice.
pub(super) fn twice(path: &Path) -> anyhow::Error {
    let what = format!("{} is named twice. Name each run once", path.display());
    Failure::on_all_ranks(Code::Usage, what)
}

/// Returns the runs that `paths` stand for.
///
/// # Errors
///
/// Returns an error if one of them stands for no run.
pub(super) fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        sources.extend(find_one(path)?);
    }
    Ok(sources)
}

fn find_one(path: &Path) -> anyhow::Result<Vec<Source>> {
    let replays = RunsAt::find_replays(path)?;
    let sweeps = match path.is_file() && !replays.runs.is_empty() {
        true => None,
        false => Some(RunsAt::find(path)?),
    };
    let mut sources = Vec::new();
    for (found, is_replay) in sweeps
        .iter()
        .map(|sweeps| (sweeps, false))
        .chain([(&replays, true)])
    {
        for run in &found.runs {
            sources.push(source(run, found, is_replay));
        }
    }
    if sources.is_empty() {
        let what = format!(
            "{} has no results.csv, replay.json or rehearsal.json, and no folder below it has a \
             run: nothing to report. Name the folder of a run",
            path.display()
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(sources)
}

fn source(files: &RunFiles, found: &RunsAt, is_replay: bool) -> Source {
    let RunFiles { csv, folder, .. } = files;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let step = found
        .experiment
        .as_ref()
        .and_then(|record| record.step(&name));
    Source {
        is_replay,
        run: match is_replay {
            true => read_run_of_replay(&folder.join(REPLAY_JSON)),
            false => read::read_run(&folder.join("run.json")),
        },
        label: step.map(|step| step.label.clone()),
        csv: csv.clone(),
        folder: folder.clone(),
    }
}

/// Reads what `replay.json` says of the run.
fn read_run_of_replay(path: &Path) -> Option<RunMeta> {
    #[derive(Deserialize)]
    struct Replay {
        run: RunMeta,
    }
    let bytes = input::read(path, InputKind::Json).ok()?;
    let replay: Replay = serde_json::from_slice(&bytes).ok()?;
    Some(replay.run)
}

impl Source {
    /// Returns the name of the run, or its folder if that is not known.
    pub(super) fn name(&self) -> String {
        match &self.run {
            Some(run) if !run.run_id.is_empty() => run.run_id.clone(),
            _ => self.folder.display().to_string(),
        }
    }

    /// Returns the path of the summary of a replay.
    pub(super) fn replay_json(&self) -> PathBuf {
        self.folder.join(REPLAY_JSON)
    }

    /// Returns the path of another file of the run, if there is such a file.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|path| path.is_file())
    }
}
