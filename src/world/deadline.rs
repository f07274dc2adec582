//! Deadlines: nothing waits forever. A thread ends the job if a wait makes no progress for too
//! long.
//!
//! Waits happen inside MPI, CUDA and NCCL, where they cannot be interrupted. So the thread does not
//! interrupt a wait: it ends the job through [`abort::job`], with a message that names what was
//! being waited for. Where the watch over all ranks runs, it knows who is to blame and speaks
//! first.

use std::{
    sync::{
        Mutex, MutexGuard, Once, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    abort, inquiry,
    progress::{self, Snapshot},
    resource_limits,
    running_clock::RunningClock,
};
use crate::{exit::Code, streams};

/// The current wait and its limit.
struct Wait {
    what: String,
    /// When it began, or made progress.
    since: Instant,
    /// How long it may be without progress.
    limit: Duration,
    /// Whether it has made progress.
    has_moved: bool,
}

impl Wait {
    fn new(what: String, limit: Duration) -> Wait {
        Wait {
            what,
            since: Instant::now(),
            limit,
            has_moved: false,
        }
    }

    fn is_overdue(&self) -> bool {
        // Who speaks first asks first.
        let patience = if IS_WATCHED.load(Ordering::Relaxed) {
            WATCH_SPEAKS_WITHIN + inquiry::longest()
        } else if abort::rank().is_some_and(|rank| rank > 0) {
            RANK_0_SPEAKS_WITHIN + inquiry::longest()
        } else {
            Duration::ZERO
        };
        self.since.elapsed() > self.limit.saturating_add(patience)
    }

    /// Takes note of what has happened since the last look: whether there was progress, and for how
    /// long this process did not run.
    fn note(&mut self, has_moved: bool, paused: Duration) {
        if has_moved {
            self.since = Instant::now();
            self.has_moved = true;
        } else {
            self.since += paused;
        }
    }
}

/// The current wait of this process, as the watch over all ranks sees it.
pub(super) struct CurrentWait {
    pub(super) what: String,
    /// How long there has been no progress.
    pub(super) stands: Duration,
    pub(super) limit: Duration,
}

/// What to do if a wait is merely slow; that of the command line unless it is set.
static REMEDY: OnceLock<&str> = OnceLock::new();
/// The innermost wait of the process.
static CURRENT: Mutex<Option<Wait>> = Mutex::new(None);
/// The rank that the current wait waits for, if it is known.
static PEER: Mutex<Option<String>> = Mutex::new(None);
static START_THREAD: Once = Once::new();

/// Whether the watch over all ranks reaches this one.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// The interval at which the thread checks the current wait.
const TICK: Duration = Duration::from_millis(100);

/// How much longer than its limit a wait may take while the watch over all ranks finds out who is
/// to blame.
const WATCH_SPEAKS_WITHIN: Duration = Duration::from_secs(7);

/// How much longer than its limit a wait of another rank may take where there is no watch: rank 0,
/// which has the same limit, writes the files, and knows if one of them is what all wait for.
const RANK_0_SPEAKS_WITHIN: Duration = Duration::from_secs(1);

/// Notes whether the watch over all ranks reaches this one, so that it speaks first.
pub(super) fn set_watched(is_watched: bool) {
    IS_WATCHED.store(is_watched, Ordering::Relaxed);
}

/// Returns the current wait, if there is one.
pub(super) fn current_wait() -> Option<CurrentWait> {
    let current = current();
    let wait = current.as_ref()?;
    Some(CurrentWait {
        what: wait.what.clone(),
        stands: wait.since.elapsed(),
        limit: wait.limit,
    })
}

/// Returns how long the current wait may be without progress, if there is one.
pub fn current_limit() -> Option<Duration> {
    Some(current().as_ref()?.limit)
}

/// Returns what messages say of the write of this process that has not ended for longer than
/// `time`, if there is one.
pub(super) fn stuck_write(time: Duration) -> Option<String> {
    let write = streams::longest_wait().filter(|write| write.time > time)?;
    Some(format!("{write}. If it is merely slow, {}", remedy()))
}

/// Returns what messages advise if a wait is merely slow.
pub fn remedy() -> &'static str {
    REMEDY.get().unwrap_or(&"raise --timeout")
}

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

/// Starts a wait for `what`, which is worded like `allocating two buffers of 8G`, and which may be
/// without progress for `limit`. If there is a wait already, it is suspended until this one ends,
/// and then starts anew. Every rank starts the same waits in the same order.
pub fn limit(what: impl Into<String>, limit: Duration) -> Guard {
    START_THREAD.call_once(|| {
        if let Err(error) = thread::Builder::new().spawn(end_job_if_overdue) {
            abort::job(
                Code::Launch,
                &resource_limits::no_thread(&error.to_string()),
            );
        }
    });
    let wait = Wait::new(what.into(), limit);
    let outer = current().replace(wait);
    progress::next_step();
    Guard { outer }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let resumed = self
            .outer
            .take()
            .map(|outer| Wait::new(outer.what, outer.limit));
        *current() = resumed;
        progress::next_step();
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
    let mut clock = RunningClock::start(Instant::now());
    let mut seen = Snapshot::default();
    loop {
        thread::sleep(TICK);
        let paused = clock.look(Instant::now());
        let now = progress::snapshot();
        // A wait that has just begun has made no progress.
        let has_moved = now.step == seen.step && now != seen;
        seen = now;
        if let Some(overdue) = overdue(has_moved, paused, &now) {
            abort::job(Code::TimedOut, &overdue.message());
        }
    }
}

/// Why the current wait ends the job.
enum Overdue {
    /// A write of this process has not ended.
    Write(String),
    /// Anything else.
    Wait(String),
}

impl Overdue {
    /// Returns the message for it. One process asks what else is known.
    fn message(self) -> String {
        match self {
            Overdue::Wait(reason) if abort::rank().is_none_or(|rank| rank == 0) => {
                reason + &inquiry::ask_all(None).wait()
            }
            Overdue::Wait(reason) | Overdue::Write(reason) => reason,
        }
    }
}

/// Returns why the current wait ends the job, if it is overdue. The lock is released before that.
fn overdue(has_moved: bool, paused: Duration, progress: &Snapshot) -> Option<Overdue> {
    streams::leave_out(paused);
    let mut current = current();
    let wait = current.as_mut()?;
    wait.note(has_moved, paused);
    if let Some(stuck) = stuck_write(wait.limit) {
        return Some(Overdue::Write(stuck));
    }
    if !wait.is_overdue() {
        return None;
    }
    // It began a little later than the wait that it holds up.
    if let Some(stuck) = stuck_write(wait.limit / 2) {
        return Some(Overdue::Write(stuck));
    }
    let peer = peer_name();
    let waits = peer.as_ref().map(|peer| format!(": it waits for {peer}"));
    Some(Overdue::Wait(format!(
        "{} {}{}. A rank or the network is stuck: see the messages of the other ranks. If this is \
         merely slow, {}",
        wait.what,
        lack_of_progress(wait, progress),
        waits.unwrap_or_default(),
        remedy()
    )))
}

/// Returns how messages say that `wait` does not go on.
fn lack_of_progress(wait: &Wait, progress: &Snapshot) -> String {
    let limit = wait.limit.as_secs();
    match progress.total {
        0 if !wait.has_moved => format!("did not end within {limit} s"),
        0 => format!("made no progress for {limit} s"),
        total => format!(
            "made no progress for {limit} s ({} of {total} operations done)",
            progress.done
        ),
    }
}
