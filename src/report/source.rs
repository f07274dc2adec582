//! What a report is made of: folders with a `results.csv`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    compare::experiment_record::ExperimentRecord,
    exit::{Code, Failure},
    record::{
        RunMeta,
        read::{self, named_twice},
    },
};

const CSV: &str = "results.csv";

/// A run, or a step of an experiment.
pub(super) struct Source {
    /// Its CSV.
    pub(super) csv: PathBuf,
    /// The folder of its other files.
    pub(super) folder: PathBuf,
    /// What its `run.json` says; `None` if there is none, or if it cannot be read.
    pub(super) run: Option<RunMeta>,
    /// The name of its variant, if it is a step of an experiment.
    pub(super) label: Option<String>,
}

/// Returns the runs that `paths` stand for: a folder with a `results.csv`, a folder of such folders as `compare` and
/// `experiment` take and leave it, or a CSV itself.
///
/// # Errors
///
/// Returns an error if one of them stands for no run.
pub(super) fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    if let Some(path) = named_twice(paths) {
        let what = format!("{} is named twice. Name each run once", path.display());
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    let mut sources = Vec::new();
    for path in paths {
        sources.extend(find_one(path)?);
    }
    Ok(sources)
}

fn find_one(path: &Path) -> anyhow::Result<Vec<Source>> {
    if path.is_file() {
        let folder = path.parent().unwrap_or(Path::new("."));
        return Ok(vec![Source::new(path.to_owned(), folder, None)]);
    }
    let usage = |what| Failure::on_all_ranks(Code::Usage, what);
    let experiment = ExperimentRecord::read(path).map_err(usage)?;
    let mut sources = Vec::new();
    for folder in folders_with_results(path)? {
        let Some(experiment) = &experiment else {
            sources.push(Source::in_folder(&folder, None));
            continue;
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if experiment.counts(&folder) {
            let label = experiment.step(&name).map(|step| step.label.clone());
            sources.push(Source::in_folder(&folder, label));
        }
    }
    // The CSV that compare leaves in the folder has the rows of the steps once more.
    if sources.is_empty() && path.join(CSV).is_file() {
        sources.push(Source::in_folder(path, None));
    }
    if sources.is_empty() {
        let what = format!(
            "{} has no results.csv, and no folder below it has one: nothing to report. Name the folder of a run",
            path.display()
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(sources)
}

/// Returns the folders in `folder` that have results, in the order of their names.
fn folders_with_results(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::of_file("read", folder, &error))?;
    let mut folders = Vec::new();
    for entry in entries.flatten() {
        if entry.path().join(CSV).is_file() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

impl Source {
    fn in_folder(folder: &Path, label: Option<String>) -> Source {
        Source::new(folder.join(CSV), folder, label)
    }

    fn new(csv: PathBuf, folder: &Path, label: Option<String>) -> Source {
        Source {
            run: read::read_run(&folder.join("run.json")),
            csv,
            folder: folder.to_owned(),
            label,
        }
    }
}
