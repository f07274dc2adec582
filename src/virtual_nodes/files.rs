//! [`JobFiles`]: the files of a job.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::exit::Failure;

/// The files of a job, which are all that is read of it.
#[derive(Debug)]
pub(super) struct JobFiles {
    folder: PathBuf,
}

impl JobFiles {
    /// Names the files of a job in this folder.
    pub(super) fn below(folder: &Path) -> JobFiles {
        JobFiles {
            folder: folder.to_owned(),
        }
    }

    /// Makes the folders that the job's ranks write to.
    ///
    /// # Errors
    /// Returns an error if one cannot be made.
    pub(super) fn make_folders(&self) -> anyhow::Result<()> {
        for folder in [&self.folder, &self.logs(), &self.counters()] {
            fs::create_dir(folder).map_err(|error| Failure::of_file("made", folder, &error))?;
        }
        Ok(())
    }

    /// Returns the folder of all files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file with the command and the variables of the ranks.
    pub(super) fn start(&self) -> PathBuf {
        self.folder.join("job.txt")
    }

    /// Returns the folder of the sweep's results.
    pub(super) fn results(&self) -> PathBuf {
        self.folder.join("results")
    }

    /// Returns the folder of NCCL's logs.
    pub(super) fn logs(&self) -> PathBuf {
        self.folder.join("nccl")
    }

    /// Returns NCCL's log of a rank.
    pub(super) fn log_of(&self, rank: u64) -> PathBuf {
        self.logs().join(format!("rank-{rank}.log"))
    }

    /// Returns the folder of the counters.
    pub(super) fn counters(&self) -> PathBuf {
        self.folder.join("counters")
    }

    /// Returns the file for what the ranks print.
    pub(super) fn output(&self) -> PathBuf {
        self.folder.join("output.txt")
    }
}
