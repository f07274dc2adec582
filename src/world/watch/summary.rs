//! [`RankSummary`]: what a process knows of the ranks below it, in a size that does not depend on
//! how many these are.

use serde::{Deserialize, Serialize};

use super::report::ProgressReport;

/// What is known of some ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RankSummary {
    /// The ranks that are heard.
    pub(super) heard: u32,
    /// The rank that is furthest behind, and the first of those.
    pub(super) last: ProgressReport,
    /// How many are as far behind as that.
    pub(super) at_last: u32,
    /// The rank that is furthest ahead, and the first of those.
    pub(super) first: ProgressReport,
    /// The least time that a rank that waits has been without progress beyond its limit, in
    /// milliseconds; `None` if none waits.
    pub(super) overdue_ms: Option<i64>,
    /// The least time that a rank has waited without progress, in milliseconds.
    pub(super) waits_ms: u64,
    /// The rank that has been silent for the longest time, if any is.
    pub(super) silent: Option<Silent>,
    /// Ranks that the watch does not reach, or no longer, and one of them.
    pub(super) unreached: Option<Unreached>,
}

/// A rank that is not heard any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Silent {
    /// Its last report.
    pub(super) report: ProgressReport,
    pub(super) for_ms: u64,
    /// The ranks that are heard through it only.
    pub(super) behind_it: u32,
}

/// Ranks that the watch does not reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unreached {
    pub(super) ranks: u32,
    /// One of them, as messages name it.
    pub(super) example: String,
}

impl Unreached {
    /// Returns how messages name them.
    pub(super) fn in_words(&self) -> String {
        match self.ranks {
            1 => self.example.clone(),
            ranks => format!("{ranks} ranks, such as {}", self.example),
        }
    }
}

impl RankSummary {
    /// Returns what is known of one rank.
    pub(super) fn of(report: &ProgressReport) -> RankSummary {
        RankSummary {
            heard: 1,
            last: report.clone(),
            at_last: 1,
            first: report.clone(),
            overdue_ms: report.overdue_ms(),
            waits_ms: report.waits_ms(),
            silent: None,
            unreached: None,
        }
    }

    /// Adds what is known of other ranks, `age_ms` ago.
    pub(super) fn add(&mut self, other: &RankSummary, age_ms: u64) {
        self.heard = self.heard.saturating_add(other.heard);
        match other.last.position.cmp(&self.last.position) {
            std::cmp::Ordering::Less => {
                self.last = other.last.clone();
                self.at_last = other.at_last;
            }
            std::cmp::Ordering::Equal => {
                self.at_last = self.at_last.saturating_add(other.at_last);
                if other.last.rank < self.last.rank {
                    self.last = other.last.clone();
                }
            }
            std::cmp::Ordering::Greater => {}
        }
        let key = |report: &ProgressReport| (report.position, std::cmp::Reverse(report.rank));
        if key(&other.first) > key(&self.first) {
            self.first = other.first.clone();
        }
        let both = self.overdue_ms.into_iter().chain(other.overdue_ms);
        self.overdue_ms = both.min();
        self.waits_ms = self.waits_ms.min(other.waits_ms);
        if let Some(silent) = &other.silent {
            let for_ms = silent.for_ms.saturating_add(age_ms);
            self.add_silent(Silent {
                for_ms,
                ..silent.clone()
            });
        }
        if let Some(unreached) = &other.unreached {
            self.add_unreached(unreached);
        }
    }

    /// Adds a rank that is silent; the one that is so for the longest time stays.
    pub(super) fn add_silent(&mut self, silent: Silent) {
        let longest = self.silent.as_ref().map_or(0, |other| other.for_ms);
        if self.silent.is_none() || silent.for_ms > longest {
            self.silent = Some(silent);
        }
    }

    /// Adds ranks that the watch does not reach.
    pub(super) fn add_unreached(&mut self, other: &Unreached) {
        match &mut self.unreached {
            Some(unreached) => unreached.ranks = unreached.ranks.saturating_add(other.ranks),
            None => self.unreached = Some(other.clone()),
        }
    }

    /// Returns whether all ranks that are heard are at one position.
    pub(super) fn is_even(&self) -> bool {
        self.last.position == self.first.position
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::report, *};

    #[test]
    fn a_sum_has_the_rank_that_is_behind_and_the_least_times() {
        let mut all = RankSummary::of(&report(0, 121, 3100));
        for (rank, done, stands) in [(1, 121, 3400), (3, 120, 3300), (2, 120, 3200)] {
            all.add(&RankSummary::of(&report(rank, done, stands)), 0);
        }
        assert_eq!((all.heard, all.last.rank, all.at_last), (4, 2, 2));
        assert_eq!((all.first.rank, all.first.position.done), (0, 121));
        assert_eq!((all.overdue_ms, all.waits_ms), (Some(100), 3100));
        assert!(!all.is_even());
    }

    #[test]
    fn the_order_of_a_sum_does_not_matter() {
        let reports = [report(0, 5, 10), report(1, 4, 30), report(2, 4, 20)];
        let sum = |order: [usize; 3]| {
            let mut all = RankSummary::of(&reports[order[0]]);
            all.add(&RankSummary::of(&reports[order[1]]), 0);
            all.add(&RankSummary::of(&reports[order[2]]), 0);
            all
        };
        for order in [[1, 2, 0], [2, 1, 0], [2, 0, 1], [0, 2, 1]] {
            assert_eq!(sum([0, 1, 2]), sum(order), "{order:?}");
        }
    }

    #[test]
    fn the_longest_silence_stays_and_grows_on_its_way() {
        let mut all = RankSummary::of(&report(0, 5, 10));
        let silent = |rank, for_ms| Silent {
            report: report(rank, 5, 10),
            for_ms,
            behind_it: 0,
        };
        all.add_silent(silent(4, 1000));
        let mut below = RankSummary::of(&report(8, 5, 10));
        below.add_silent(silent(9, 900));
        all.add(&below, 200);
        let found = all.silent.expect("one");
        assert_eq!((found.report.rank, found.for_ms), (9, 1100));
    }
}
