//! [`JobsFolder`]: where the files of all jobs are.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    exit::{Code, Failure},
    rehearsal::{
        rehearsed::{REHEARSAL_JSON, Rehearsal},
        rehearsed_table,
    },
};

/// The folder for the files of all jobs.
#[derive(Debug)]
pub(super) enum JobsFolder {
    /// One that the user named.
    Named(PathBuf),
    /// One that goes unless something is to be looked at.
    Temporary(TempDir),
}

impl JobsFolder {
    /// Makes the folder.
    ///
    /// # Errors
    /// Returns an error if it cannot be made, or if the named one is in use.
    pub(super) fn new(named: Option<&Path>) -> anyhow::Result<JobsFolder> {
        match named {
            Some(named) => JobsFolder::named(named),
            None => JobsFolder::temporary(),
        }
    }

    fn temporary() -> anyhow::Result<JobsFolder> {
        let made = tempfile::Builder::new()
            .prefix("pxnbench-rehearsal.")
            .permissions(Permissions::from_mode(0o700))
            .tempdir();
        made.map(JobsFolder::Temporary).map_err(|error| {
            let what = format!(
                "no folder for the files of a rehearsal can be made: {error}. Set TMPDIR to a \
                 folder that can be written to"
            );
            Failure::on_all_ranks(Code::Usage, what)
        })
    }

    fn named(named: &Path) -> anyhow::Result<JobsFolder> {
        let refused = |why: &dyn std::fmt::Display| {
            let what = format!("--out {} cannot be used: {why}", named.display());
            Failure::on_all_ranks(Code::Usage, what)
        };
        fs::create_dir_all(named).map_err(|error| refused(&error))?;
        let mut entries = fs::read_dir(named).map_err(|error| refused(&error))?;
        if entries.next().is_some() {
            return Err(refused(&"it is not empty. Name a new folder"));
        }
        // The ranks need the whole path.
        let path = named.canonicalize().map_err(|error| refused(&error))?;
        Ok(JobsFolder::Named(path))
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        match self {
            JobsFolder::Named(path) => path,
            JobsFolder::Temporary(folder) => folder.path(),
        }
    }

    /// Writes the record of the rehearsal into the folder.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn write_record(&self, rehearsal: &Rehearsal) -> anyhow::Result<()> {
        let file = self.path().join(REHEARSAL_JSON);
        let text = rehearsed_table::json(rehearsal)?;
        fs::write(&file, text).map_err(|error| Failure::of_file("written", &file, &error))
    }

    /// Keeps the folder, and says where it is.
    pub(super) fn keep(self) {
        let path = match self {
            JobsFolder::Named(path) => path,
            JobsFolder::Temporary(folder) => folder.keep(),
        };
        say!(
            "pxnbench: the logs and counters of all jobs are in {}",
            path.display()
        );
    }
}
