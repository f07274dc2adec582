//! Rests: short sleeps of a thread that polls, so that it does not keep other processes from
//! running.
//!
//! A rank waits by polling, and yields its processor between two polls. With Linux 6.18 and
//! automatic task groups, two such ranks on two processors, each beside a thread that it wakes
//! often, can keep the processes of other sessions from running for half a minute. Sleeping once in
//! 10 ms prevents that, and spinning instead of yielding would slow down the threads of NCCL.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

/// How long a thread runs between two rests.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long a rest is. Linux makes 50 us or more of it, and needs that: a sleep of 5 us prevents
/// nothing.
const LENGTH: Duration = Duration::from_micros(1);

thread_local! {
    /// When this thread rested last.
    static RESTED_AT: Cell<Instant> = Cell::new(Instant::now());
}

/// Returns when this thread rested last.
#[cfg(test)]
pub fn rested_at() -> Instant {
    RESTED_AT.get()
}

/// Sleeps for a moment if this thread has not rested for 10 ms, and returns whether it did. To be
/// called where nothing is timed, or where 50 us do not matter.
pub fn if_due() -> bool {
    let is_due = RESTED_AT.get().elapsed() >= INTERVAL;
    if is_due {
        thread::sleep(LENGTH);
        RESTED_AT.set(Instant::now());
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_rests_once_in_ten_milliseconds() {
        while !if_due() {}
        let began = Instant::now();
        let mut rests = 0;
        while began.elapsed() < 10 * INTERVAL {
            rests += u32::from(if_due());
        }
        // Fewer where the machine is busy, and more never.
        assert!((1..=10).contains(&rests), "{rests}");
    }
}
