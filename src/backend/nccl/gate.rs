//! Where the threads of a process wait for each other, and learn that one of them failed.

use std::{
    fmt,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// A barrier that opens for good when a thread fails: the others would wait for it for ever.
pub(super) struct Gate {
    threads: usize,
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    round: u64,
    failed: bool,
}

/// The error of a thread that stopped because another one failed.
#[derive(Debug)]
pub(super) struct GaveUp;

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another thread of this process failed")
    }
}

impl std::error::Error for GaveUp {}

impl Gate {
    pub(super) fn new(threads: usize) -> Gate {
        Gate { threads, state: Mutex::default(), opened: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when every thread has called it.
    ///
    /// # Errors
    /// [`GaveUp`] where one never will.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        if self.threads == 1 {
            return Ok(());
        }
        let mut state = self.lock();
        state.waiting += 1;
        if state.waiting == self.threads {
            state.waiting = 0;
            state.round += 1;
            self.opened.notify_all();
        }
        let round = state.round + u64::from(state.waiting > 0);
        while state.round < round && !state.failed {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed { Err(GaveUp.into()) } else { Ok(()) }
    }

    /// Says that this thread will come no more.
    pub(super) fn fail(&self) {
        self.lock().failed = true;
        self.opened.notify_all();
    }

    /// Fails where another thread did.
    ///
    /// # Errors
    /// [`GaveUp`].
    #[inline]
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.threads > 1 && self.lock().failed { Err(GaveUp.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn nobody_passes_before_all_have_come() {
        const THREADS: usize = 3;
        const ROUNDS: u32 = 200;
        let (gate, come) = (Gate::new(THREADS), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        come.fetch_add(1, Ordering::SeqCst);
                        gate.wait().expect("nobody fails");
                        assert!(come.load(Ordering::SeqCst) >= round * THREADS as u32);
                        gate.wait().expect("nobody fails");
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_fails_lets_the_others_go() {
        let gate = Gate::new(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.wait());
            gate.fail();
            let error = waiting.join().expect("no panic").expect_err("the other failed");
            assert!(error.is::<GaveUp>());
        });
        assert!(gate.check().is_err() && gate.wait().is_err());
    }
}
