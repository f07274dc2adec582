//! What a check is: a name, what it covers, and a function from facts to an outcome.

use super::outcome::CheckOutcome;
use crate::facts::ranks::RankFacts;

/// The processes that a check looks at, and the function that it applies to them.
pub enum CheckScope {
    /// Each process on its own.
    Process(fn(&RankFacts) -> CheckOutcome),
    /// Each process of a Slurm job on its own.
    Slurm(fn(&RankFacts) -> CheckOutcome),
    /// All processes together.
    Job(fn(&[RankFacts]) -> CheckOutcome),
}

/// A check.
pub struct Check {
    /// Its id, which never changes.
    pub id: &'static str,
    /// What it checks, for the report and the documentation.
    pub about: &'static str,
    /// Its scope and function.
    pub scope: CheckScope,
}

impl Check {
    pub(super) const fn per_process(
        id: &'static str,
        about: &'static str,
        check: fn(&RankFacts) -> CheckOutcome,
    ) -> Check {
        Check {
            id,
            about,
            scope: CheckScope::Process(check),
        }
    }

    pub(super) const fn in_slurm(
        id: &'static str,
        about: &'static str,
        check: fn(&RankFacts) -> CheckOutcome,
    ) -> Check {
        Check {
            id,
            about,
            scope: CheckScope::Slurm(check),
        }
    }

    pub(super) const fn across_job(
        id: &'static str,
        about: &'static str,
        check: fn(&[RankFacts]) -> CheckOutcome,
    ) -> Check {
        Check {
            id,
            about,
            scope: CheckScope::Job(check),
        }
    }
}
