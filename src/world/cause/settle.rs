//! What ended the job: a failure of this process, or an earlier one of another.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    lost_process::note_loss,
    note::{self, FailureNote, first_at, shared},
    rank_folder::{ProcessState, RankFolder},
    state::{Learned, OWN, SHARED, failed_now, first, leave, peers, remember, tell_other_nodes},
    system_logs,
};
use crate::{exit::Code, world::end_of_job::EndOfJob};

/// Whether this process was asked to stop, and knew of no failure then.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// How much later than its consequences a failure may be noted.
const CAUSE_FOLLOWS: Duration = Duration::from_millis(300);

/// What ended the job, as a process that ends it records it.
pub(in crate::world) struct Settled {
    pub(in crate::world) end: EndOfJob,
    /// The failure of another rank that came first, if there is one.
    pub(in crate::world) other: Option<Learned>,
    /// Whether the failure of this process follows from it.
    pub(in crate::world) is_consequence: bool,
}

impl Settled {
    /// Returns what ended the job if nothing of another rank came first.
    fn here(code: Code, sentence: String, is_consequence: bool) -> Settled {
        Settled {
            end: EndOfJob { code, sentence },
            other: None,
            is_consequence,
        }
    }
}

/// Finds out what ended the job when this process, `name`, ends it with `code` for `reason`: a
/// failure of another rank before this one, or this one, which is noted.
pub(in crate::world) fn settle(code: Code, reason: &str, name: &str) -> Settled {
    if code == Code::Stopped {
        leave();
        return Settled::here(code, reason.to_owned(), false);
    }
    let is_consequence = note::is_consequence(code, reason);
    let earlier = match is_consequence {
        true => cause_within(CAUSE_FOLLOWS),
        false => earlier_failure(),
    };
    if let Some(learned) = earlier {
        leave();
        remember(&learned.note);
        return Settled {
            end: learned.note.end.clone(),
            other: Some(learned),
            is_consequence,
        };
    }
    let reason = match system_logs::on_own_failure(code) {
        Some(clause) => format!("{reason}; {clause}"),
        None => reason.to_owned(),
    };
    if let Some(own) = OWN.get() {
        let note = FailureNote {
            process: failed_now(&own.mark),
            end: EndOfJob {
                code,
                sentence: format!("{name}: {reason}"),
            },
        };
        // Without a note the others know less.
        let _ = own.note_failure(&note);
        tell_other_nodes(&note);
        remember(&note);
    }
    Settled::here(code, reason, is_consequence)
}

/// Returns the failure behind a signal that asks this process to stop: launchers send one when a
/// rank has failed. `None` if there is none.
pub(in crate::world) fn behind_stop() -> Option<Learned> {
    let learned = match first() {
        Some(note) => Learned::of(note.clone()),
        None => {
            let learned = earlier_failure();
            IS_STOPPING.store(true, Ordering::SeqCst);
            learned?
        }
    };
    remember(&learned.note);
    Some(learned)
}

/// Waits for the failure from which that of this process follows. A rank may learn of it before it
/// is noted.
fn cause_within(limit: Duration) -> Option<Learned> {
    const LOOK: Duration = Duration::from_millis(20);
    let began = Instant::now();
    loop {
        match earlier_failure() {
            Some(learned) if !learned.note.is_consequence() => return Some(learned),
            learned if began.elapsed() > limit => return learned,
            _ => thread::sleep(LOOK),
        }
    }
}

/// Returns the failure of another process that came before that of this one, if there is one.
fn earlier_failure() -> Option<Learned> {
    OWN.get()?;
    let known = peers().clone();
    let local = known.iter().filter_map(RankFolder::failure);
    let elsewhere = SHARED.get().and_then(|folder| first_at(&shared(folder)));
    if let Some(note) = note::first_of(local.chain(elsewhere)) {
        return Some(Learned::of(note));
    }
    // The launcher kills those that do not stop, so this counts only before that.
    if IS_STOPPING.load(Ordering::SeqCst) {
        return None;
    }
    let lost = known
        .iter()
        .find(|folder| folder.state() == ProcessState::Lost)?;
    Some(note_loss(lost, None))
}
