//! The failure of a process that died without a note, which those that live on its node write in
//! its place.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    note::FailureNote,
    rank_folder::{ProcessState, RankFolder},
    state::{Learned, failed_now, found_here, peers, remember, tell_other_nodes},
    system_logs::{self, LossCause},
};
use crate::{
    exit::Code,
    record::FailedProcess,
    world::{end_of_job::EndOfJob, process_stat::ExitStatus},
};

/// Returns the failure of rank `rank`, whose connection is gone; `None` if it is not on this node,
/// or nothing is known.
pub(in crate::world) fn of_lost_rank(rank: u32) -> Option<Learned> {
    /// The kernel closes the connections of a process a moment before it is gone.
    const GONE_WITHIN: Duration = Duration::from_millis(500);
    let known = peers().clone();
    let folder = known.iter().find(|folder| folder.mark.rank == rank)?;
    let asked = Instant::now();
    loop {
        match folder.state() {
            ProcessState::Failed(note) => {
                remember(&note);
                return Some(Learned::of(note));
            }
            ProcessState::Lost => {
                let learned = note_loss(folder, None);
                remember(&learned.note);
                return Some(learned);
            }
            ProcessState::Left => return None,
            ProcessState::Running | ProcessState::Stopped if asked.elapsed() > GONE_WITHIN => {
                return None;
            }
            ProcessState::Running | ProcessState::Stopped => {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Notes that the process of `folder` is gone, unless another process has.
pub(super) fn note_loss(folder: &RankFolder, status: Option<ExitStatus>) -> Learned {
    let note = loss(folder, status);
    // Held until it is known whose note it is: several threads may find out the same.
    let mut found_here = found_here();
    if folder.note_failure(&note).is_ok() {
        *found_here = Some(note.clone());
        drop(found_here);
        tell_other_nodes(&note);
        return Learned::of(note);
    }
    drop(found_here);
    // If there is no other note, the folder cannot be written to.
    match folder.failure() {
        Some(note) => Learned::of(note),
        None => Learned { note, is_new: true },
    }
}

/// Returns the failure of a process that is gone without a word.
fn loss(folder: &RankFolder, status: Option<ExitStatus>) -> FailureNote {
    let process = failed_now(&folder.mark);
    let FailedProcess {
        rank, host, pid, ..
    } = &process;
    let LossCause { is_killed, clause } = system_logs::on_lost_process(*pid);
    let what = match status {
        Some(ExitStatus::Signal(number)) => {
            let signal = signal_hook::low_level::signal_name(number).unwrap_or("a signal");
            format!("was killed by {signal}")
        }
        Some(ExitStatus::Exit(code)) => format!("ended with exit code {code} and without a word"),
        None if is_killed => "was killed".into(),
        None => "was killed, or a library ended it without a word".into(),
    };
    let sentence = format!("rank {rank} on {host} (pid {pid}) {what}; {clause}");
    FailureNote {
        process,
        end: EndOfJob {
            code: Code::Launch,
            sentence,
        },
    }
}
