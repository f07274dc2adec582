//! What is compared: the steps of an experiment, those below one folder, or runs that are named one
//! by one.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    case_key::Cases,
    experiment_record::ExperimentRecord,
    folders::{CSV, MeasuredRun, RunFiles, RunsAt},
    replicate::Origin,
    step::Step,
};
use crate::{
    exit::{Code, Failure},
    record::read::named_twice,
};

/// What is compared.
pub(super) struct Inputs {
    /// The steps, each with the name of its run.
    steps: Vec<(RunFiles, String)>,
    /// The record of the experiment, if it is one.
    pub(super) experiment: Option<ExperimentRecord>,
    /// The folder of the steps, if there is one.
    pub(super) folder: Option<PathBuf>,
}

impl Inputs {
    /// Finds the steps of `paths`: one folder of steps, or several runs and folders of steps.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them has nothing to compare.
    pub(super) fn find(paths: &[PathBuf]) -> anyhow::Result<Inputs> {
        if let [folder] = paths {
            return Inputs::of_folder(folder);
        }
        if let Some(path) = named_twice(paths) {
            let what = format!("{} is named twice. Name each run once", path.display());
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let mut steps = Vec::new();
        for path in paths {
            let found = RunsAt::find_any(path)?;
            if found.runs.is_empty() {
                return Err(nothing_at(path, &found));
            }
            for step in found.runs {
                steps.push((step, name(path, paths)));
            }
        }
        Ok(Inputs {
            steps,
            experiment: None,
            folder: None,
        })
    }

    /// Finds the steps in `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is nothing to compare.
    pub(super) fn of_folder(folder: &Path) -> anyhow::Result<Inputs> {
        let found = RunsAt::find_any(folder)?;
        if found.runs.is_empty() || !found.are_steps {
            return Err(nothing_at(folder, &found));
        }
        let mut steps = Vec::new();
        for step in found.runs {
            let name = step.folder.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            steps.push((step, name));
        }
        Ok(Inputs {
            steps,
            experiment: found.experiment,
            folder: Some(folder.to_owned()),
        })
    }

    /// Reads all steps. Cases get their numbers in `cases`.
    ///
    /// # Errors
    ///
    /// Returns an error if the rows of one cannot be read.
    pub(super) fn read(&self, cases: &mut Cases) -> anyhow::Result<Vec<Step>> {
        let mut steps = Vec::new();
        for (files, run) in &self.steps {
            steps.push(Step::read(files, run, cases)?);
        }
        Ok(steps)
    }

    /// Returns the rows of the steps that are sweeps.
    pub(super) fn csvs_of_sweeps(&self) -> Vec<&Path> {
        let mut csvs = Vec::new();
        for (files, _) in &self.steps {
            if files.measured == MeasuredRun::Sweep {
                csvs.push(files.csv.as_path());
            }
        }
        csvs
    }

    /// Returns what the steps are to each other.
    pub(super) fn origin(&self) -> Origin<'_> {
        match (&self.experiment, &self.folder) {
            (Some(record), _) => Origin::Experiment(record),
            (None, Some(_)) => Origin::Folder,
            (None, None) => Origin::Runs,
        }
    }
}

/// Returns the error of a path that has nothing to compare.
fn nothing_at(path: &Path, found: &RunsAt) -> anyhow::Error {
    let name = path.display();
    let what = if !found.are_steps {
        format!(
            "{name} is one run. Name the folder above it, and have several runs there, or name \
             several runs"
        )
    } else if found.experiment.is_some() {
        format!("no step of the experiment in {name} has results yet")
    } else {
        format!("no folder below {name} has a {CSV}, or the files of a replay: nothing to compare")
    };
    Failure::on_all_ranks(Code::NothingRan, what)
}

/// Returns the folder of a run that may be named by its `results.csv`.
fn folder_of(path: &Path) -> Cow<'_, Path> {
    let is_file = path.file_name().is_some_and(|name| name == "results.csv") && path.is_file();
    match path.parent() {
        Some(parent) if is_file && parent.as_os_str().is_empty() => Cow::Borrowed(Path::new(".")),
        Some(parent) if is_file => Cow::Borrowed(parent),
        _ => Cow::Borrowed(path),
    }
}

/// Returns the name of a run in tables: that of its folder, or the path as it was named if another
/// folder has the same name.
fn name(path: &Path, all: &[PathBuf]) -> String {
    let short = |path: &Path| folder_of(path).file_name().map(ToOwned::to_owned);
    let own = short(path);
    let same = all.iter().filter(|other| short(other) == own).count();
    match own {
        Some(own) if same == 1 => own.to_string_lossy().into_owned(),
        _ => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_their_folders_as_long_as_these_differ() {
        let paths = ["a/one", "b/two/", "c/two"].map(PathBuf::from);
        let names: Vec<String> = paths.iter().map(|path| name(path, &paths)).collect();
        assert_eq!(names, ["one", "b/two/", "c/two"]);
    }
}
