//! [`Deadline`]: when an experiment must end, and whether another block fits before it.

use std::time::{Duration, Instant, SystemTime};

use crate::env::Env;

/// The time before the end of a Slurm job that is kept for the comparison.
const RESERVE: Duration = Duration::from_secs(60);

/// How long a step may go on after the time is over: half of what a Slurm job keeps.
const GRACE: Duration = Duration::from_secs(30);

/// The times at which an experiment must end, if there are any: that of its limit, and that of its
/// Slurm job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    limit: Option<Instant>,
    job: Option<Instant>,
}

/// When a step is ended that has not ended by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepLimit {
    pub(super) until: Instant,
    /// How long after the end of the experiment's time that is.
    pub(super) grace: Duration,
}

impl Deadline {
    /// Returns the deadline: `limit` from now, and shortly before the end of the Slurm job.
    pub(super) fn new(limit: Option<Duration>, env: Env) -> Deadline {
        let now = Instant::now();
        let after = |left: Duration| now.checked_add(left);
        Deadline {
            limit: limit.and_then(after),
            job: job_time_left(env, SystemTime::now()).and_then(after),
        }
    }

    /// Returns whether a block that takes as long as `expected` would end after the deadline.
    pub(super) fn is_too_close(&self, expected: Duration) -> bool {
        let end = Instant::now() + expected;
        let mut deadlines = self.limit.into_iter().chain(self.job);
        deadlines.any(|deadline| end > deadline)
    }

    /// Returns the limit of the next step, if there is one. A step may go on after the time is
    /// over, but no longer than half a minute or the `longest` step so far. The end of a job is not
    /// later for a long step.
    pub(super) fn of_step(&self, longest: Duration) -> Option<StepLimit> {
        let after = |deadline: Instant, grace| {
            let until = deadline.checked_add(grace)?;
            Some(StepLimit { until, grace })
        };
        let limit = self
            .limit
            .and_then(|limit| after(limit, longest.max(GRACE)));
        let job = self.job.and_then(|job| after(job, GRACE));
        let limits = limit.into_iter().chain(job);
        limits.min_by_key(|limit| limit.until)
    }
}

/// Returns the time until [`RESERVE`] before the end of the Slurm job, which Slurm gives in seconds
/// since 1970.
fn job_time_left(env: Env, now: SystemTime) -> Option<Duration> {
    let seconds: u64 = env("SLURM_JOB_END_TIME")?.parse().ok()?;
    let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    let left = end.duration_since(now).unwrap_or_default();
    Some(left.saturating_sub(RESERVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_two_limits_counts() {
        let none = |_: &str| None;
        assert!(!Deadline::new(None, &none).is_too_close(Duration::from_secs(1 << 40)));
        let hour = Deadline::new(Some(Duration::from_secs(3600)), &none);
        assert!(!hour.is_too_close(Duration::from_secs(3500)));
        assert!(hour.is_too_close(Duration::from_secs(3700)));

        let ends_at_1000 = |name: &str| (name == "SLURM_JOB_END_TIME").then(|| "1000".to_owned());
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let left = |seconds| job_time_left(&ends_at_1000, at(seconds));
        assert_eq!(left(400), Some(Duration::from_secs(540)));
        assert_eq!(left(2000), Some(Duration::ZERO), "the job is over its time");
        assert!(Deadline::new(None, &ends_at_1000).is_too_close(Duration::ZERO));
    }

    #[test]
    fn a_step_may_go_on_for_half_a_minute_or_for_as_long_as_the_longest_one() {
        let none = |_: &str| None;
        let seconds = Duration::from_secs;
        assert!(Deadline::new(None, &none).of_step(seconds(100)).is_none());

        let before = Instant::now();
        let hour = Deadline::new(Some(seconds(3600)), &none);
        for (longest, grace) in [(0, 30), (30, 30), (100, 100)] {
            let limit = hour.of_step(seconds(longest)).expect("a limit");
            assert_eq!(limit.grace, seconds(grace));
            let left = limit.until - before;
            assert!(left >= seconds(3600 + grace), "{left:?}");
        }

        // A job that is over has no time for a long step.
        let is_over = |name: &str| (name == "SLURM_JOB_END_TIME").then(|| "1000".to_owned());
        let job = Deadline::new(Some(seconds(3600)), &is_over);
        let limit = job.of_step(seconds(100)).expect("a limit");
        assert_eq!(limit.grace, seconds(30));
        assert!(limit.until <= Instant::now() + seconds(30));
    }
}
