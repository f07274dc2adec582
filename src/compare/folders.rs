//! [`RunsAt`]: the runs that a path stands for. Nothing else decides that, for a comparison and for
//! a report.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::experiment_record::ExperimentRecord;
use crate::{
    exit::{Code, Failure},
    replay::files::{REPLAY_JSON, STEPS_CSV},
};

/// The name of a run's rows in its folder.
pub const CSV: &str = "results.csv";

/// What a run measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredRun {
    /// The collectives of a sweep.
    Sweep,
    /// A training step.
    Replay,
}

/// A run, or a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// What it measured.
    pub measured: MeasuredRun,
    /// Its rows.
    pub csv: PathBuf,
    /// The folder of its other files.
    pub folder: PathBuf,
}

/// The runs that a path stands for.
#[derive(Debug)]
pub struct RunsAt {
    /// Those with results, in the order in which they ran. Steps of an experiment are among them
    /// only if their times count.
    pub runs: Vec<RunFiles>,
    /// Whether they are in folders below the path, as steps are.
    pub are_steps: bool,
    /// The record of the experiment, if they are its steps.
    pub experiment: Option<ExperimentRecord>,
}

impl RunFiles {
    fn in_folder(folder: &Path) -> RunFiles {
        RunFiles {
            measured: MeasuredRun::Sweep,
            csv: folder.join(CSV),
            folder: folder.to_owned(),
        }
    }

    fn of_csv(csv: &Path) -> RunFiles {
        let folder = csv.parent().filter(|folder| !folder.as_os_str().is_empty());
        RunFiles {
            measured: MeasuredRun::Sweep,
            csv: csv.to_owned(),
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
        }
    }
}

impl RunsAt {
    /// Finds the runs of `path`: its sweeps, or its replays if it has none.
    ///
    /// # Errors
    ///
    /// Returns an error as [`RunsAt::find`] does.
    pub fn find_any(path: &Path) -> anyhow::Result<RunsAt> {
        let replays = RunsAt::find_replays(path)?;
        if path.is_file() && !replays.runs.is_empty() {
            return Ok(replays);
        }
        let sweeps = RunsAt::find(path)?;
        Ok(if sweeps.runs.is_empty() {
            replays
        } else {
            sweeps
        })
    }

    /// Finds the replays of training steps of `path` as [`RunsAt::find`] finds runs. Their rows are
    /// the steps.
    ///
    /// # Errors
    ///
    /// Returns an error as [`RunsAt::find`] does.
    pub fn find_replays(path: &Path) -> anyhow::Result<RunsAt> {
        check_kind(path)?;
        let has_replay = |folder: &Path| folder.join(REPLAY_JSON).is_file();
        let replay_in = |folder: &Path| RunFiles {
            measured: MeasuredRun::Replay,
            csv: folder.join(STEPS_CSV),
            folder: folder.to_owned(),
        };
        if path.is_file() {
            let run = RunFiles::of_csv(path);
            let runs = match path.file_name() == Some(STEPS_CSV.as_ref()) && has_replay(&run.folder)
            {
                true => vec![replay_in(&run.folder)],
                false => Vec::new(),
            };
            return Ok(RunsAt {
                runs,
                are_steps: false,
                experiment: None,
            });
        }
        if has_replay(path) {
            return Ok(RunsAt::one(replay_in(path)));
        }
        let experiment = ExperimentRecord::read(path)
            .map_err(|what| Failure::on_all_ranks(Code::Usage, what))?;
        let mut folders = folders_with(REPLAY_JSON, path)?;
        folders.retain(|folder| {
            let counts = experiment.as_ref().map(|record| record.counts(folder));
            counts.unwrap_or(true)
        });
        Ok(RunsAt {
            runs: folders.iter().map(|folder| replay_in(folder)).collect(),
            are_steps: true,
            experiment,
        })
    }

    /// Finds the runs of `path`: those in folders below it, otherwise the one in the folder itself.
    /// A file is the rows of a run. There may be none.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder, or the record of its experiment, cannot be read.
    pub fn find(path: &Path) -> anyhow::Result<RunsAt> {
        check_kind(path)?;
        if path.is_file() {
            return Ok(RunsAt::one(RunFiles::of_csv(path)));
        }
        let experiment = ExperimentRecord::read(path)
            .map_err(|what| Failure::on_all_ranks(Code::Usage, what))?;
        let folders = folders_with(CSV, path)?;
        // The CSV that compare leaves in the folder has the rows of the steps once more.
        if folders.is_empty() && path.join(CSV).is_file() {
            return Ok(RunsAt::one(RunFiles::in_folder(path)));
        }
        let mut runs = Vec::new();
        for folder in &folders {
            if experiment
                .as_ref()
                .is_none_or(|record| record.counts(folder))
            {
                runs.push(RunFiles::in_folder(folder));
            }
        }
        Ok(RunsAt {
            runs,
            are_steps: true,
            experiment,
        })
    }

    fn one(run: RunFiles) -> RunsAt {
        RunsAt {
            runs: vec![run],
            are_steps: false,
            experiment: None,
        }
    }
}

/// Refuses what is neither a file nor a folder, as a shell gives for `<(…)`. What does not exist is
/// refused when it is read.
fn check_kind(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = path.metadata() else {
        return Ok(());
    };
    if found.is_file() || found.is_dir() {
        return Ok(());
    }
    let what = format!(
        "{} is a pipe or a device. Write what it gives to a file, and name that",
        path.display()
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Returns the folders below `folder` that have a file of this name, in the order of the numbers
/// that they begin with.
fn folders_with(file: &str, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::of_file("read", folder, &error))?;
    let mut folders = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.join(file).is_file() {
            folders.push(path);
        }
    }
    folders.sort_by_key(|path| order(path));
    Ok(folders)
}

/// Returns the number that a folder's name begins with, then its name.
fn order(step: &Path) -> (u64, String) {
    let name = match step.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::new(),
    };
    let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(u64::MAX), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_a_run_or_the_runs_below_it() {
        let root = tempfile::tempdir().expect("a folder");
        let at = root.path();
        assert!(RunsAt::find(at).expect("read").runs.is_empty());
        fs::write(at.join(CSV), "x").expect("written");
        let one = RunsAt::find(at).expect("read");
        assert_eq!(
            (one.runs, one.are_steps),
            (vec![RunFiles::in_folder(at)], false)
        );
        for name in ["10-off", "2-off", "empty"] {
            fs::create_dir(at.join(name)).expect("made");
        }
        for name in ["10-off", "2-off"] {
            fs::write(at.join(name).join(CSV), "x").expect("written");
        }
        let steps = RunsAt::find(at).expect("read");
        let names: Vec<_> = steps
            .runs
            .iter()
            .filter_map(|run| run.folder.file_name())
            .collect();
        assert_eq!(
            (names, steps.are_steps),
            (vec!["2-off".as_ref(), "10-off".as_ref()], true)
        );
        let file = RunsAt::find(&at.join("2-off").join(CSV)).expect("read");
        assert_eq!(file.runs, [RunFiles::in_folder(&at.join("2-off"))]);
        assert!(RunsAt::find(&at.join("none")).is_err());
    }
}
