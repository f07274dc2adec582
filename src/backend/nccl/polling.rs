//! [`Polling`]: the pauses of a loop that asks again and again whether a GPU is done.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::world::rest;

/// How long such a loop only yields.
const EAGER: Duration = Duration::from_millis(10);

/// How long a loop has waited when each of its pauses is a sleep.
const PATIENT: Duration = Duration::from_millis(100);

/// The part of the time waited so far that such a sleep takes.
const PAUSE: u32 = 2000;

/// The pauses between the questions of a loop that waits for a GPU.
///
/// Each yields the processor, as in nccl-tests, because the threads of NCCL need it too. After 10
/// ms the thread also [rests](rest), once in 10 ms, and after 100 ms it sleeps each time, for
/// 1/2000 of the time waited so far. A time is too long by no more than that and what Linux takes
/// to wake a thread, about 50 us; between 10 and 100 ms it rarely is, because a wait seldom ends in
/// a rest.
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
        if waited >= PATIENT {
            thread::sleep(waited / PAUSE);
        } else if waited < EAGER || !rest::if_due() {
            thread::yield_now();
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
        while began.elapsed() < 3 * PATIENT {
            late += u32::from(began.elapsed() > PATIENT);
            polling.pause();
        }
        // The shortest sleep is 1/2000 of 100 ms, so there is room for 4000. Yielding asks some
        // 100,000 times.
        assert!(late < 10_000, "{late}");
    }

    #[test]
    fn a_wait_of_ten_milliseconds_rests() {
        let rested_at = rest::rested_at();
        // A busy machine may take the processor away for most of a wait.
        for _ in 0..100 {
            let polling = Polling::start();
            while polling.began.elapsed() < PATIENT / 2 {
                polling.pause();
            }
            if rest::rested_at() != rested_at {
                return;
            }
        }
        panic!("none of 100 waits rested");
    }
}
