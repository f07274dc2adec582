//! The results of a launch: where its files are, and what they say in one line.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::context::Launch;
use crate::{
    levels,
    record::{RowError, RowReader, RunMeta, Status, read},
    slurm::hosts,
    units::counted,
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

    /// Returns every `run.json` in it with the time of its last change.
    pub(super) fn runs(&self) -> BTreeMap<PathBuf, Option<SystemTime>> {
        let Some(path) = &self.path else {
            return BTreeMap::new();
        };
        let folders: Vec<PathBuf> = if self.is_jobs {
            fs::read_dir(path)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect()
        } else {
            vec![path.clone()]
        };
        let files = folders.into_iter().map(|folder| folder.join("run.json"));
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

/// Returns one line for a reader: what was measured, on what, how it ended, and where the results are.
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
    let end = run.end.as_ref().map_or("the run did not finish", |end| {
        if end.code == 0 {
            ""
        } else {
            end.message.as_str()
        }
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
        "level {} on {} of {} ({}): {}, {data}{pxn}{}; {}",
        run.level,
        counted(run.ranks, "rank"),
        counted(run.nodes, "node"),
        hosts::compress(&nodes),
        counted(measured, "case"),
        if end.is_empty() {
            String::new()
        } else {
            format!("; {end}")
        },
        csv.display()
    )
}
