//! What this process knows of its job: its own mark, the other processes of its node, and the
//! failure that came first.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use super::{
    note::{self, FailureNote},
    rank_folder::{RankFolder, RankMark},
};
use crate::{
    record::{self, FailedProcess},
    world::{placement::host_name, within::do_within},
};

/// The mark of this process.
pub(super) static OWN: OnceLock<RankFolder> = OnceLock::new();
/// The other processes of the job on this node that have lived since all of them met.
static PEERS: Mutex<Vec<RankFolder>> = Mutex::new(Vec::new());
/// The folder of the run, which other nodes may see.
pub(super) static SHARED: OnceLock<PathBuf> = OnceLock::new();
/// The failure that ended the job, as far as this process knows.
static FIRST: OnceLock<FailureNote> = OnceLock::new();
/// The failure of another process that this one found out.
static FOUND_HERE: Mutex<Option<FailureNote>> = Mutex::new(None);

/// How long a note in the run's folder may take to write: its file system may be what fails.
const SHARED_NOTE_TAKES: Duration = Duration::from_millis(500);

/// What a process learned of the failure that ended the job.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The failure.
    pub note: FailureNote,
    /// Whether this process found it out, so that nobody has printed it yet.
    pub is_new: bool,
}

impl Learned {
    pub(super) fn of(note: FailureNote) -> Learned {
        let is_new = found_here().as_ref() == Some(&note);
        Learned { note, is_new }
    }
}

pub(super) fn found_here() -> MutexGuard<'static, Option<FailureNote>> {
    FOUND_HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn peers() -> MutexGuard<'static, Vec<RankFolder>> {
    PEERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the run's folder, in which a rank that fails leaves a note for the other nodes.
pub fn share(folder: &Path) {
    // A process has one run.
    let _ = SHARED.set(folder.to_owned());
}

/// Returns the failure that ended the job, if this process knows it.
pub fn first() -> Option<&'static FailureNote> {
    FIRST.get()
}

/// Keeps `note` as the failure that ended the job, unless one is known.
pub(in crate::world) fn remember(note: &FailureNote) {
    // The first one stays.
    let _ = FIRST.set(note.clone());
}

/// Returns the process of `mark`, which is on this node and has just failed.
pub(super) fn failed_now(mark: &RankMark) -> FailedProcess {
    FailedProcess {
        rank: mark.rank,
        host: host_name(),
        pid: mark.process.pid,
        at: record::exact_now(),
    }
}

/// Writes a note for other nodes, without waiting for a file system that does not answer. Process 0
/// writes to `run.json`.
pub(super) fn tell_other_nodes(note: &FailureNote) {
    let is_first = OWN.get().is_some_and(|own| own.mark.rank == 0);
    let Some(folder) = SHARED.get().filter(|_| !is_first) else {
        return;
    };
    let note = note.clone();
    let write = move || {
        // If it cannot be written, other nodes know less.
        let _ = note::write_shared(folder, &note);
    };
    // Written or not, this process goes on.
    let _ = do_within(SHARED_NOTE_TAKES, write);
}

/// Removes the mark of this process, which ends in good order; not if it has noted a failure.
pub(in crate::world) fn leave() {
    if let Some(own) = OWN.get()
        && own.failure().is_none()
    {
        own.remove();
    }
}
