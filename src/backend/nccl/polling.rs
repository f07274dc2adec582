//! [`Polling`]: the pauses of a loop that asks again and again whether a GPU is done.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long such a loop only yields.
const EAGER: Duration = Duration::from_millis(100);

/// The part of the time waited so far that a later pause takes.
const PAUSE: u32 = 2000;

/// The pauses between the questions of a loop that waits for a GPU.
///
/// Each yields the processor, as in nccl-tests, because the threads of NCCL need it too. After 100 ms they are sleeps of 1/2000 of the
/// time waited so far. A time is too long by no more than that and what Linux takes to wake a thread, about 50 us. Ranks that yield for
/// seconds starve others where they share processors: with Linux 6.18 and automatic task groups, two ranks on two processors kept
/// other processes from running for up to ten seconds.
#[derive(Debug)]
pub(super) struct Polling {
    began: Instant,
}

impl Polling {
    /// Starts to wait.
    pub(super) fn start() -> Polling {
        Polling {
            began: Instant::now(),
        }
    }

    /// Leaves the processor to others until the next question.
    pub(super) fn pause(&self) {
        let waited = self.began.elapsed();
        if waited < EAGER {
            thread::yield_now();
        } else {
            thread::sleep(waited / PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_sleeps_between_questions() {
        let polling = Polling::start();
        let began = Instant::now();
        let mut late = 0;
        while began.elapsed() < 3 * EAGER {
            late += u32::from(began.elapsed() > EAGER);
            polling.pause();
        }
        // The shortest sleep is 1/2000 of 100 ms, so there is room for 4000. Yielding asks some 100,000 times.
        assert!(late < 10_000, "{late}");
    }
}
