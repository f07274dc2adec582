//! `pxnbench rehearse`: NCCL itself on virtual nodes of this machine, whose NICs a net plugin plays.
//!
//! NCCL reads its settings once per process, and counters belong to a process. So each level, collective and algorithm is a job of
//! its own: a short sweep by this program, whose ranks meet over TCP. Several jobs run at the same time, since times mean
//! nothing. What a job leaves (rows, NCCL's logs, the counters of the rails) is read when it has ended, and compared with the
//! theory by [`crate::rehearsal`].
//!
//! | step | module |
//! |---|---|
//! | what is to be rehearsed | `request`, `played` |
//! | the GPUs of this machine, and the plugin | `machine` |
//! | the variables of a rank | `environment` |
//! | the jobs, and several of them at a time | `jobs` |
//! | one job from its start to what it showed | `job`, `reading` |

mod environment;
mod job;
mod jobs;
mod machine;
mod played;
mod reading;
mod request;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use self::{job::JobSetup, machine::Machine};
pub use self::{
    played::{PlayedOnRails, RailNumber, RailStall},
    request::Request,
};
use crate::{
    exit::{Code, Failure},
    rehearsal::rehearsed::Rehearsal,
    units::counted,
};

/// What a rehearsal came to.
#[derive(Debug)]
pub struct Outcome {
    /// What the jobs showed that ended well.
    pub rehearsal: Rehearsal,
    /// Why not all of them did.
    pub failure: Option<anyhow::Error>,
}

/// Rehearses what is requested.
///
/// # Errors
/// Returns an error if this machine has too few GPUs, if there is no plugin, or if the request cannot be fulfilled.
pub fn run(request: &Request) -> anyhow::Result<Outcome> {
    request.check()?;
    let first = request.first_cluster();
    let machine = Machine::find(first.gpus())?;
    let folder = Folder::new(request.out.as_deref())?;
    let setup = JobSetup::new(request, &machine, folder.path())?;
    let jobs = jobs::list(request);
    say!(
        "pxnbench: {} of {} on {}, up to {} at a time; times mean nothing in a rehearsal",
        counted(jobs.len() as u64, "job"),
        counted(first.ranks(), "rank"),
        counted(first.gpus() as u64, "GPU"),
        request.jobs_at_once
    );
    let done = jobs::run_all(&jobs, request.jobs_at_once, &|job| setup.run(job));
    let mut rehearsal = Rehearsal::of(first, request.size.0);
    rehearsal.device.clone_from(&machine.device);
    rehearsal.played = request.played.words();
    if let Some(shown) = done.shown.first() {
        rehearsal.nccl.clone_from(&shown.nccl);
    }
    rehearsal.add(done.shown.into_iter().map(|shown| shown.case));
    let differs = rehearsal.check().is_err();
    if done.failure.is_some() || differs {
        folder.keep();
    }
    Ok(Outcome {
        rehearsal,
        failure: done.failure,
    })
}

/// The folder for the files of all jobs.
enum Folder {
    /// One that the user named.
    Named(PathBuf),
    /// One that goes unless something is to be looked at.
    Temporary(TempDir),
}

impl Folder {
    /// Makes the folder.
    ///
    /// # Errors
    /// Returns an error if it cannot be made, or if the named one is in use.
    fn new(named: Option<&Path>) -> anyhow::Result<Folder> {
        let Some(named) = named else {
            let made = tempfile::Builder::new()
                .prefix("pxnbench-rehearsal.")
                .permissions(Permissions::from_mode(0o700))
                .tempdir();
            return made.map(Folder::Temporary).map_err(|error| {
                let what = format!(
                    "no folder for the files of a rehearsal can be made: {error}. Set TMPDIR to a folder that can be written to"
                );
                Failure::on_all_ranks(Code::Usage, what)
            });
        };
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
        Ok(Folder::Named(path))
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Named(path) => path,
            Folder::Temporary(folder) => folder.path(),
        }
    }

    /// Keeps the folder, and says where it is.
    fn keep(self) {
        let path = match self {
            Folder::Named(path) => path,
            Folder::Temporary(folder) => folder.keep(),
        };
        say!(
            "pxnbench: the logs and counters of all jobs are in {}",
            path.display()
        );
    }
}
