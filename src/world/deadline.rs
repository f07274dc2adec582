//! Deadlines: nothing waits for ever. A thread ends the job when what is being waited for takes too long.
//!
//! Waiting happens inside MPI, CUDA and NCCL, where it cannot be interrupted; so the thread does not interrupt it, it
//! ends the job with a sentence that says what was being waited for.

use std::{
    sync::{Mutex, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::abort;
use crate::exit::Code;

/// What is being waited for, and until when.
struct Wait {
    what: String,
    since: Instant,
    limit: Duration,
}

static WAIT: Mutex<Option<Wait>> = Mutex::new(None);
static WATCH: Once = Once::new();

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(100);

/// A wait in progress; it ends when this is dropped.
#[must_use]
pub struct Guard {
    /// What was being waited for before, if anything.
    outer: Option<Wait>,
}

/// Starts a wait for `what`, which reads like `allocating two buffers of 8G`. A wait inside a wait replaces it until it
/// ends.
pub fn watch(what: impl Into<String>, limit: Duration) -> Guard {
    WATCH.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::sleep(TICK);
                end_if_overdue();
            }
        });
    });
    let wait = Wait {
        what: what.into(),
        since: Instant::now(),
        limit,
    };
    Guard {
        outer: lock().replace(wait),
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let outer = self.outer.take().map(|wait| Wait {
            since: Instant::now(),
            ..wait
        });
        *lock() = outer;
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Wait>> {
    WAIT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end_if_overdue() {
    let overdue = lock().as_ref().filter(|wait| wait.since.elapsed() > wait.limit).map(|wait| {
        format!(
            "{} did not end within {} s: a rank or the network is stuck; see the messages of the other ranks, and raise \
             --timeout if this is merely slow",
            wait.what,
            wait.limit.as_secs()
        )
    });
    if let Some(sentence) = overdue {
        abort::job(Code::TimedOut, &sentence);
    }
}
