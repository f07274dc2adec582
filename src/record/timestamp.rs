//! The time of day as records hold it.

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, FixedOffset, Local, SubsecRound};
use rustix::time::{ClockId, clock_gettime};

/// The last second of which a record can tell the year in four digits, wherever it is: a day before
/// the year 10000.
const LAST: i64 = 253_402_214_400;

/// Returns the current time to the second, with the offset of local time.
pub fn now() -> DateTime<FixedOffset> {
    exact_now().trunc_subsecs(0)
}

/// Returns the current time with the offset of local time. If the clock is not set, it is the
/// beginning of 1970 or the end of the calendar. A change of the clock while this process runs is
/// ignored, since otherwise an end could lie before its beginning.
pub fn exact_now() -> DateTime<FixedOffset> {
    static FIRST: OnceLock<ClockReading> = OnceLock::new();
    let first = FIRST.get_or_init(ClockReading::now);
    let passed = since_boot().saturating_sub(first.since_boot);
    after_1970(first.since_1970.saturating_add(passed))
}

/// What two clocks show at the same time: the one that can be set, and the one that only goes on.
struct ClockReading {
    since_1970: Duration,
    since_boot: Duration,
}

impl ClockReading {
    fn now() -> ClockReading {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        ClockReading {
            since_1970: since_1970.unwrap_or_default(),
            since_boot: since_boot(),
        }
    }
}

/// Returns the time since the machine started. It goes on while the machine sleeps, unlike an
/// `Instant`.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

fn after_1970(since: Duration) -> DateTime<FixedOffset> {
    let seconds = i64::try_from(since.as_secs()).unwrap_or(LAST).min(LAST);
    let time = DateTime::from_timestamp(seconds, since.subsec_nanos()).unwrap_or_default();
    time.with_timezone(&Local).fixed_offset()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_gives_a_time_that_can_be_read_again() {
        for seconds in [0, 1_796_000_000, LAST as u64 - 1, u64::MAX] {
            let time = after_1970(Duration::new(seconds, 5));
            let text = time.to_rfc3339();
            assert_eq!(DateTime::parse_from_rfc3339(&text), Ok(time), "{text}");
            let exact = i64::try_from(seconds).unwrap_or(i64::MAX).min(LAST);
            assert_eq!(time.timestamp(), exact);
        }
    }
}
