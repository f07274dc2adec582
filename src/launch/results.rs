//! The results of a launch: where its files are, and what they say in one line.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::context::Launch;
use crate::{
    exit::Code,
    levels,
    record::{RowError, RowReader, RunMeta, Status, read},
    slurm::hosts,
    units::counted,
    world::cause,
};

/// The place of the run's files.
pub(super) struct RunFolder {
    /// The run's own folder, or the one of the job in which the step makes its own.
    path: Option<PathBuf>,
    is_jobs: bool,
}

impl RunFolder {
    pub(super) fn new(launch: &Launch) -> RunFolder {
        let jobs = launch.jobs_folder();
        let path = if launch.request.target.only_prints() {
            None
        } else {
            launch.request.target.folder(&jobs)
        };
        RunFolder {
            is_jobs: path.as_ref() == Some(&jobs),
            path,
        }
    }

    /// Returns the path of a folder in it that does not exist yet.
    pub(super) fn next(&self) -> PathBuf {
        let jobs = self.path.clone().unwrap_or_default();
        (0..)
            .map(|n: u32| jobs.join(format!("mpirun-{n}")))
            .find(|folder| !folder.exists())
            .unwrap_or(jobs)
    }

    /// Returns whether the folder is the job's, because the sweep does not name its own.
    pub(super) fn is_jobs(&self) -> bool {
        self.is_jobs
    }

    /// Returns the folders that runs may have: itself, or those in it.
    fn folders(&self) -> Vec<PathBuf> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        if !self.is_jobs {
            return vec![path.clone()];
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Returns the notes of ranks that failed.
    pub(super) fn failure_notes(&self) -> Vec<PathBuf> {
        let folders = self.folders().into_iter();
        folders.flat_map(|folder| cause::shared(&folder)).collect()
    }

    /// Returns every `run.json` in it with the time of its last change.
    pub(super) fn runs(&self) -> BTreeMap<PathBuf, Option<SystemTime>> {
        let folders = self.folders().into_iter();
        let files = folders.map(|folder| folder.join("run.json"));
        files
            .filter_map(|file| Some((fs::metadata(&file).ok()?.modified().ok(), file)))
            .map(|(at, f)| (f, at))
            .collect()
    }
}

/// The rows of a `results.csv`, counted.
#[derive(Default)]
struct CountedRows {
    /// Those that are not waived.
    measured: usize,
    /// Those with wrong data.
    wrong: usize,
}

impl CountedRows {
    fn read(path: &Path) -> Result<CountedRows, RowError> {
        let mut reader = RowReader::open(path)?;
        let mut counted = CountedRows::default();
        while let Some(row) = reader.read_row::<read::RowView>()? {
            counted.measured += usize::from(row.status != Status::Waived);
            counted.wrong += usize::from(row.status == Status::Wrong);
        }
        Ok(counted)
    }
}

/// Returns one line for a reader: what was measured, on what, how it ended, and where the results
/// are.
pub(super) fn summary(run: &RunMeta, path: &Path) -> String {
    let hosts: BTreeMap<u32, &str> = run
        .processes
        .iter()
        .map(|process| (process.node, process.host.as_str()))
        .collect();
    let nodes: Vec<&str> = hosts.into_values().collect();
    let csv = path.with_file_name("results.csv");
    let rows = CountedRows::read(&csv).unwrap_or_default();
    let measured = rows.measured;
    let data = match rows.wrong {
        0 => "no wrong data".to_owned(),
        wrong => format!("{wrong} with WRONG DATA"),
    };
    let cases = counted(measured, "case");
    let measured = match has_finished(run) {
        true => format!("{cases}, {data}"),
        false => format!("did not finish: {cases} until then, {data} in them"),
    };
    let end = run.end.as_ref().map_or("", |end| match end.code {
        0 => "",
        _ => end.message.as_str(),
    });
    let pxn = if run.nodes < 2 {
        "; PXN was impossible on one node"
    } else if !run.backend.runs_nccl() {
        "; no NCCL here, so no PXN"
    } else if run.level == levels::CUSTOM {
        "; the settings in force match no level"
    } else {
        ""
    };
    format!(
        "level {} on {} of {} ({}): {measured}{pxn}{}; {}",
        run.level,
        counted(run.ranks, "rank"),
        counted(run.nodes, "node"),
        hosts::compress(&nodes),
        if end.is_empty() {
            String::new()
        } else {
            format!("; {end}")
        },
        csv.display()
    )
}

/// Returns whether a run came to the end of its cases, whatever it found in them.
fn has_finished(run: &RunMeta) -> bool {
    let finished = [Code::Fine, Code::NothingRan, Code::WrongData];
    run.end
        .as_ref()
        .is_some_and(|end| finished.contains(&end.name))
}
