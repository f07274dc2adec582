//! What is compared: the steps of an experiment, those below one folder, or runs that are named one by one.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    case_key::Cases, experiment_record::ExperimentRecord, samples::Origin, step::Step, steps,
};
use crate::{
    exit::{Code, Failure},
    record::read::named_twice,
};

/// What is compared.
pub(super) struct Inputs {
    /// The folders of the steps, each with the name of its run.
    steps: Vec<(PathBuf, String)>,
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
            let folder = folder_of(path);
            for step in steps_of_run(&folder)? {
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
        let experiment = read_record(folder)?;
        let mut steps = Vec::new();
        for step in counted(folder, steps::find(folder)?, experiment.as_ref())? {
            let name = step.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            steps.push((step, name));
        }
        Ok(Inputs {
            steps,
            experiment,
            folder: Some(folder.to_owned()),
        })
    }

    /// Reads all steps. Cases get their numbers in `cases`.
    ///
    /// # Errors
    ///
    /// Returns an error if a `results.csv` cannot be read.
    pub(super) fn read(&self, cases: &mut Cases) -> anyhow::Result<Vec<Step>> {
        let mut steps = Vec::new();
        for (folder, run) in &self.steps {
            steps.push(Step::read(folder, run, cases)?);
        }
        Ok(steps)
    }

    /// Returns the folders of the steps.
    pub(super) fn folders(&self) -> Vec<&Path> {
        let steps = self.steps.iter();
        steps.map(|(folder, _)| folder.as_path()).collect()
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

fn read_record(folder: &Path) -> anyhow::Result<Option<ExperimentRecord>> {
    let record = ExperimentRecord::read(folder);
    record.map_err(|what| Failure::on_all_ranks(Code::Usage, what))
}

/// Returns the folders whose times count.
fn counted(
    folder: &Path,
    mut folders: Vec<PathBuf>,
    experiment: Option<&ExperimentRecord>,
) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(experiment) = experiment {
        folders.retain(|folder| experiment.counts(folder));
    }
    if folders.is_empty() {
        let what = format!(
            "no step of the experiment in {} has results yet",
            folder.display()
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(folders)
}

/// Returns the folders of a run's steps: those below its folder, otherwise the folder itself.
fn steps_of_run(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    match steps::find(folder) {
        Ok(steps) => counted(folder, steps, read_record(folder)?.as_ref()),
        Err(_) if folder.join("results.csv").is_file() => Ok(vec![folder.to_owned()]),
        Err(error) => Err(error),
    }
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

/// Returns the name of a run in tables: that of its folder, or the path as it was named if another folder has the same name.
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
