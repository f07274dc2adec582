//! What a report is made of: the runs that its paths stand for.

use std::path::{Path, PathBuf};

use crate::{
    compare::folders::{RunFiles, RunsAt},
    exit::{Code, Failure},
    record::{
        RunMeta,
        read::{self, named_twice},
    },
};

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

/// Returns the runs that `paths` stand for.
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
    let found = RunsAt::find(path)?;
    if found.runs.is_empty() {
        let what = format!(
            "{} has no results.csv, and no folder below it has one: nothing to report. Name the folder of a run",
            path.display()
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    let mut sources = Vec::new();
    for RunFiles { csv, folder } in found.runs {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let step = found
            .experiment
            .as_ref()
            .and_then(|record| record.step(&name));
        sources.push(Source {
            run: read::read_run(&folder.join("run.json")),
            label: step.map(|step| step.label.clone()),
            csv,
            folder,
        });
    }
    Ok(sources)
}

impl Source {
    /// Returns the name of the run, or its folder if that is not known.
    pub(super) fn name(&self) -> String {
        match &self.run {
            Some(run) => run.run_id.clone(),
            None => self.folder.display().to_string(),
        }
    }

    /// Returns the path of another file of the run, if there is such a file.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|path| path.is_file())
    }
}
