//! Deadlines: nothing waits forever. A thread ends the job if a wait takes too long.
//!
//! Waits happen inside MPI, CUDA and NCCL, where they cannot be interrupted. So the thread does not
//! interrupt a wait: it ends the job through [`abort::job`], with a message that names what was
//! being waited for.

use std::{
    sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{abort, limits};
use crate::{exit::Code, streams};

/// The current wait and its limit.
struct Wait {
    what: String,
    since: Instant,
    limit: Duration,
}

impl Wait {
    fn new(what: String, limit: Duration) -> Wait {
        Wait {
            what,
            since: Instant::now(),
            limit,
        }
    }

    fn is_overdue(&self) -> bool {
        self.since.elapsed() > self.limit
    }

    /// Returns the part of the limit that a write may take. The other ranks, which wait meanwhile, have the same limit and
    /// know less of what is stuck.
    fn limit_of_writes(&self) -> Duration {
        self.limit * 3 / 4
    }
}

/// What to do if a wait is merely slow; that of the command line unless it is set.
static REMEDY: OnceLock<&str> = OnceLock::new();
/// The innermost wait of the process.
static CURRENT: Mutex<Option<Wait>> = Mutex::new(None);
/// The rank that the current wait waits for, if it is known.
static PEER: Mutex<Option<String>> = Mutex::new(None);
static START_WATCHING: Once = Once::new();

/// The interval at which the thread checks the current wait.
const TICK: Duration = Duration::from_millis(100);

/// Sets what messages advise if a wait is merely slow.
pub fn set_remedy(remedy: &'static str) {
    // A process has one, so a second call has no effect.
    let _ = REMEDY.set(remedy);
}

/// A wait in progress, which ends when this is dropped.
#[must_use]
pub struct Guard {
    /// The wait that this one interrupts, if any.
    outer: Option<Wait>,
}

/// Starts a wait for `what`, which is worded like `allocating two buffers of 8G`. If there is a
/// wait already, it is suspended until this one ends, and then starts anew.
pub fn watch(what: impl Into<String>, limit: Duration) -> Guard {
    START_WATCHING.call_once(|| {
        if let Err(error) = thread::Builder::new().spawn(end_job_if_overdue) {
            abort::job(Code::Launch, &limits::no_thread(&error.to_string()));
        }
    });
    let wait = Wait::new(what.into(), limit);
    Guard {
        outer: current().replace(wait),
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let resumed = self
            .outer
            .take()
            .map(|outer| Wait::new(outer.what, outer.limit));
        *current() = resumed;
    }
}

/// A wait for a rank, which ends when this is dropped.
#[must_use]
pub struct PeerGuard;

/// Notes that the current wait waits for `peer`, which is worded like `rank 3 on node7`.
pub fn waiting_for(peer: String) -> PeerGuard {
    *peer_name() = Some(peer);
    PeerGuard
}

impl Drop for PeerGuard {
    fn drop(&mut self) {
        *peer_name() = None;
    }
}

fn peer_name() -> MutexGuard<'static, Option<String>> {
    PEER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn current() -> MutexGuard<'static, Option<Wait>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks the current wait until the process ends.
fn end_job_if_overdue() {
    loop {
        thread::sleep(TICK);
        if let Some(reason) = overdue_reason() {
            abort::job(Code::TimedOut, &reason);
        }
    }
}

/// Returns the message for the current wait if it is overdue. The lock is released before the job
/// ends.
fn overdue_reason() -> Option<String> {
    let current = current();
    let wait = current.as_ref()?;
    if let Some((to, time)) = streams::longest_wait()
        && time > wait.limit_of_writes()
    {
        return Some(format!(
            "{to}: a write has not ended for {:.1} s. Read it, or send it elsewhere. If it is merely slow, {}",
            time.as_secs_f64(),
            remedy()
        ));
    }
    if !wait.is_overdue() {
        return None;
    }
    let peer = peer_name();
    let waits = peer.as_ref().map(|peer| format!(": it waits for {peer}"));
    Some(format!(
        "{} did not end within {} s{}. A rank or the network is stuck: see the messages of the other ranks. If this is merely \
         slow, {}",
        wait.what,
        wait.limit.as_secs(),
        waits.unwrap_or_default(),
        remedy()
    ))
}

fn remedy() -> &'static str {
    REMEDY.get().unwrap_or(&"raise --timeout")
}
