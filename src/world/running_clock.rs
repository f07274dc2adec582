//! [`RunningClock`]: a clock that does not count the time in which this process is stopped.

use std::time::{Duration, Instant};

/// The longest time between two looks that counts as running. In the rest the process was stopped,
/// or the machine slept.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The time that this process has run, for a thread that looks at it often. By the time of the day,
/// a process that was stopped and goes on would find all others silent.
pub(super) struct RunningClock {
    looked_at: Instant,
    elapsed: Duration,
}

impl RunningClock {
    /// Starts the clock.
    pub(super) fn start(now: Instant) -> RunningClock {
        RunningClock {
            looked_at: now,
            elapsed: Duration::ZERO,
        }
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Looks at the time, and returns how much of it does not count.
    pub(super) fn look(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.looked_at);
        let counted = passed.min(LONGEST_PAUSE);
        self.looked_at = now;
        self.elapsed += counted;
        passed - counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pause_does_not_count() {
        let start = Instant::now();
        let mut clock = RunningClock::start(start);
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(clock.look(at(200)), Duration::ZERO);
        assert_eq!(clock.look(at(60_200)), Duration::from_secs(59));
        assert_eq!(clock.look(at(60_300)), Duration::ZERO);
        assert_eq!(clock.elapsed(), Duration::from_millis(1300));
    }
}
