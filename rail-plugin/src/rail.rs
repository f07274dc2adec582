//! [`Rail`]: a virtual NIC with its limits and its fault.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::settings::{Fault, FaultKind, RailSettings};

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is sent.
    Goes,
    /// It is never sent.
    Stalls {
        /// Whether it is the first message that is not sent.
        is_first: bool,
    },
    /// NCCL gets an error.
    Fails,
}

/// A virtual NIC of one process.
pub(crate) struct Rail {
    settings: RailSettings,
    /// The number of messages so far.
    messages: AtomicU64,
    /// When all bytes that were booked have left; `None` before the first ones.
    free_at: Mutex<Option<Instant>>,
    /// The sum of the times that messages waited for the rail, in microseconds.
    waited: AtomicU64,
}

impl Rail {
    pub(crate) fn new(settings: RailSettings) -> Rail {
        Rail {
            settings,
            messages: AtomicU64::new(0),
            free_at: Mutex::new(None),
            waited: AtomicU64::new(0),
        }
    }

    pub(crate) fn settings(&self) -> &RailSettings {
        &self.settings
    }

    /// Returns the sum of the times that messages waited for this rail.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited.load(Ordering::Relaxed))
    }

    /// Counts the next message, and returns what happens to it.
    pub(crate) fn next_message(&self) -> Verdict {
        let before = self.messages.fetch_add(1, Ordering::Relaxed);
        match self.settings.fault {
            Some(Fault { after, .. }) if before < after => Verdict::Goes,
            Some(Fault {
                kind: FaultKind::Stall,
                after,
            }) => Verdict::Stalls {
                is_first: before == after,
            },
            Some(Fault {
                kind: FaultKind::Error,
                ..
            }) => Verdict::Fails,
            None => Verdict::Goes,
        }
    }

    /// Books `bytes` on this rail, and returns when they have left it, which is `now` if the rail
    /// has no limits. For the first bytes of a message, `queued_at` is when NCCL passed it.
    pub(crate) fn book(&self, bytes: usize, queued_at: Option<Instant>, now: Instant) -> Instant {
        let earliest = queued_at.map_or(now, |at| now.max(at + self.settings.latency));
        let Some(bandwidth) = self.settings.bandwidth else {
            self.note_wait(earliest - now);
            return earliest;
        };
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = free_at.map_or(earliest, |at| at.max(earliest));
        let left = begins + Duration::from_secs_f64(bytes as f64 / bandwidth);
        *free_at = Some(left);
        self.note_wait(left - now);
        left
    }

    fn note_wait(&self, wait: Duration) {
        let microseconds = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.waited.fetch_add(microseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(bandwidth: Option<f64>, latency: u64, fault: Option<(FaultKind, u64)>) -> Rail {
        Rail::new(RailSettings {
            bandwidth,
            latency: Duration::from_micros(latency),
            fault: fault.map(|(kind, after)| Fault { kind, after }),
        })
    }

    #[test]
    fn a_rail_without_settings_never_waits() {
        let (rail, now) = (rail(None, 0, None), Instant::now());
        assert_eq!(rail.book(1 << 30, Some(now), now), now);
        assert_eq!(rail.next_message(), Verdict::Goes);
        assert_eq!(rail.waited(), Duration::ZERO);
    }

    #[test]
    fn bytes_leave_one_after_the_other() {
        let (rail, now) = (rail(Some(1e6), 0, None), Instant::now());
        assert_eq!(rail.book(1000, None, now), now + Duration::from_millis(1));
        assert_eq!(rail.book(3000, None, now), now + Duration::from_millis(4));
        let later = now + Duration::from_millis(10);
        let third = rail.book(1000, None, later);
        assert_eq!(third, later + Duration::from_millis(1), "it was free");
        assert_eq!(rail.waited(), Duration::from_millis(6));
    }

    #[test]
    fn latency_counts_from_when_a_message_was_passed() {
        let (rail, passed) = (rail(None, 100, None), Instant::now());
        let now = passed + Duration::from_micros(30);
        let due = passed + Duration::from_micros(100);
        assert_eq!(rail.book(10, Some(passed), now), due);
        assert_eq!(rail.book(10, None, now), now, "not its first bytes");
        let late = passed + Duration::from_micros(200);
        assert_eq!(rail.book(10, Some(passed), late), late);
    }

    #[test]
    fn a_fault_begins_after_its_number_of_messages() {
        let stalls = rail(None, 0, Some((FaultKind::Stall, 2)));
        let verdicts = [(); 4].map(|()| stalls.next_message());
        let first = Verdict::Stalls { is_first: true };
        let next = Verdict::Stalls { is_first: false };
        assert_eq!(verdicts, [Verdict::Goes, Verdict::Goes, first, next]);

        let fails = rail(None, 0, Some((FaultKind::Error, 0)));
        assert_eq!(fails.next_message(), Verdict::Fails);
    }
}
