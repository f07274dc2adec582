//! Who failed first, and why.
//!
//! When a rank fails, its launcher stops the others, and these learn of a signal only. So each
//! process of a job leaves a mark in a private folder of its node ([`arrive`]), and a rank that
//! fails leaves a note there, and in the run's folder if there is one ([`share`]). A process that
//! is told to stop looks for such notes first (`behind_stop`). One that is killed leaves nothing:
//! those that live on its node notice (`losses`), and the first of them writes the note in its
//! place.

mod job_key;
mod losses;
mod lost_process;
mod mpi_start;
mod note;
mod rank_folder;
mod settle;
mod state;
mod system_logs;

use std::path::Path;

use self::{
    lost_process::note_loss,
    mpi_start::{Expected, StartedRank},
    rank_folder::{ProcessState, RankFolder, RankMark},
    state::{OWN, peers},
};
pub(super) use self::{
    lost_process::of_lost_rank,
    mpi_start::AwaitedAtStart,
    settle::{behind_stop, settle},
    state::{leave, remember},
};
pub use self::{
    note::{FailureNote, first_at, shared},
    state::{Learned, first, share},
    system_logs::{LossCause, SystemLogs, set_system_logs},
};
use super::{launch, placement::host_name, private::Owner};
use crate::env;

/// Leaves the mark of this process, if a launcher started several. To be called before MPI starts.
/// Nothing is left where that is not possible; less is then known of failures.
pub fn arrive() {
    let (Some(process), Some(rank)) = (Owner::this(), launch::rank(&env::var)) else {
        return;
    };
    let parent = parent_name();
    let Some(job) = job_key::job_key(&env::var, &parent) else {
        return;
    };
    let mark = RankMark { job, rank, process };
    if let Ok(folder) = RankFolder::make(&std::env::temp_dir(), mark) {
        // A process joins one job.
        let _ = OWN.set(folder);
    }
}

fn parent_name() -> String {
    let parent = std::os::unix::process::parent_id();
    let started = Owner::of(parent).map(|owner| owner.text());
    started.unwrap_or_else(|| parent.to_string())
}

/// Returns whom the start of MPI waits for, such as a rank of this node that has not reached it;
/// `None` if that is unknown.
pub(super) fn awaited() -> Option<AwaitedAtStart> {
    let own = OWN.get()?;
    let expected = Expected {
        all: launch::processes(&env::var)?.count,
        here: launch::processes_on_node(&env::var),
    };
    let folders = RankFolder::of_job(&std::env::temp_dir(), &own.mark.job);
    let started: Vec<StartedRank> = folders
        .iter()
        .map(|folder| StartedRank {
            rank: folder.mark.rank,
            pid: folder.mark.process.pid,
            state: folder.state(),
        })
        .collect();
    mpi_start::awaited(&started, expected, &host_name())
}

/// Returns the rank that the launcher gave this process, if it gave one.
pub(super) fn own_rank() -> Option<u32> {
    OWN.get().map(|own| own.mark.rank)
}

/// Observes the other processes of the job on this node, once all processes have met: calls `end`
/// on a thread when one dies without a note, unless `is_over` returns true.
pub(super) fn report_losses(is_over: fn() -> bool, end: fn(&Learned)) {
    let Some(own) = OWN.get() else { return };
    let mut folders = RankFolder::of_job(&std::env::temp_dir(), &own.mark.job);
    folders.retain(|folder| {
        folder.mark.process != own.mark.process && folder.state() == ProcessState::Running
    });
    peers().clone_from(&folders);
    losses::observe_all(&folders, own.mark.rank, move |folder, status| {
        if !is_over() {
            let learned = note_loss(folder, status);
            remember(&learned.note);
            end(&learned);
        }
    });
}

/// A rank on this node, other than the one of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// The rank that the launcher gave it.
    pub rank: u32,
    /// Its process.
    pub pid: u32,
}

/// Returns the other processes of the job on this node that live.
pub fn peers_here() -> Vec<PeerProcess> {
    let mut living = Vec::new();
    for RankMark { rank, process, .. } in peers().iter().map(|folder| &folder.mark) {
        if process.is_here() && !process.is_dead() {
            living.push(PeerProcess {
                rank: *rank,
                pid: process.pid,
            });
        }
    }
    living
}

/// Removes the notes that an earlier run left in the folder of this one.
pub fn remove_earlier(folder: &Path) {
    for path in shared(folder) {
        // One that stays has an earlier time, and `launch` knows it from before.
        let _ = std::fs::remove_file(path);
    }
}
