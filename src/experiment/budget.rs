//! [`Deadline`]: when an experiment must end, and whether another block fits before it.

use std::time::{Duration, Instant, SystemTime};

use crate::env::Env;

/// The time before the end of a Slurm job that is kept for the comparison.
const RESERVE: Duration = Duration::from_secs(60);

/// The time at which an experiment must end, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline: `limit` from now, or shortly before the end of the Slurm job if that is earlier.
    pub(super) fn new(limit: Option<Duration>, env: Env) -> Deadline {
        let until_job_ends = job_time_left(env, SystemTime::now());
        let left = match (limit, until_job_ends) {
            (Some(limit), Some(job)) => Some(limit.min(job)),
            (limit, job) => limit.or(job),
        };
        Deadline(left.and_then(|left| Instant::now().checked_add(left)))
    }

    /// Returns whether a block that takes as long as `expected` would end after the deadline.
    pub(super) fn is_too_close(&self, expected: Duration) -> bool {
        match self.0 {
            Some(deadline) => Instant::now() + expected > deadline,
            None => false,
        }
    }
}

/// Returns the time until [`RESERVE`] before the end of the Slurm job, which Slurm gives in seconds since 1970.
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
}
