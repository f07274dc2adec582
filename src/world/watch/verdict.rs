//! From what is known of all ranks to the sentence that says which of them is stuck. Pure.

use std::time::Duration;

use chrono::{DateTime, Local, TimeDelta};

use super::{
    report::{ProgressReport, milliseconds},
    summary::{RankSummary, Silent, Unreached},
};

/// The others may have made progress for this much longer than a rank that is silent: up to the
/// next mark in a stream.
const OTHERS_STOP_WITHIN: Duration = Duration::from_secs(1);

/// What is wrong with the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StuckJob {
    /// A rank is not heard any more, and the others wait.
    Silent(Silent),
    /// All stand, and this one is behind the others.
    Behind {
        last: ProgressReport,
        /// How many others are as far behind.
        others: u32,
        /// One that is ahead.
        first: ProgressReport,
    },
    /// All stand at the same place.
    Even {
        /// One of them.
        last: ProgressReport,
        ranks: u32,
        /// Those that are not heard, for which they may wait.
        unreached: Option<Unreached>,
    },
}

/// Returns what is wrong with ranks that may be silent for `silence`, if anything is.
pub(super) fn find(all: &RankSummary, silence: Duration) -> Option<StuckJob> {
    if let Some(silent) = &all.silent {
        let is_long = silent.for_ms >= milliseconds(silence);
        return (is_long && do_wait(all.waits_ms, silence))
            .then(|| StuckJob::Silent(silent.clone()));
    }
    if all.overdue_ms? < 0 {
        return None;
    }
    let last = all.last.clone();
    Some(if all.is_even() {
        StuckJob::Even {
            last,
            ranks: all.heard,
            unreached: all.unreached.clone(),
        }
    } else {
        StuckJob::Behind {
            last,
            others: all.at_last.saturating_sub(1),
            first: all.first.clone(),
        }
    })
}

/// Returns whether ranks that have waited for `waits_ms` wait for one that has been silent for
/// `silence`. While they make progress, only the connection of the watch is broken.
pub(super) fn do_wait(waits_ms: u64, silence: Duration) -> bool {
    let least = silence.saturating_sub(OTHERS_STOP_WITHIN).max(silence / 2);
    waits_ms >= milliseconds(least)
}

impl StuckJob {
    /// Returns whether all may wait for what rank `rank` does.
    pub(super) fn may_be_held_up_by(&self, rank: u32) -> bool {
        match self {
            StuckJob::Silent(_) => false,
            StuckJob::Behind { last, .. } => last.rank == rank,
            StuckJob::Even { .. } => true,
        }
    }

    /// Returns the rank that the sentence blames, if it blames one.
    pub(super) fn rank(&self) -> Option<u32> {
        match self {
            StuckJob::Silent(silent) => Some(silent.report.rank),
            StuckJob::Behind { last, .. } => Some(last.rank),
            StuckJob::Even { .. } => None,
        }
    }

    /// Returns the sentence for it. It is `now`; `remedy` is the advice if all is merely slow.
    pub(super) fn sentence(&self, now: DateTime<Local>, remedy: &str) -> String {
        match self {
            StuckJob::Silent(silent) => silence(silent, now),
            StuckJob::Behind {
                last,
                others,
                first,
            } => {
                let others = match others {
                    0 => String::new(),
                    1 => ", like one other rank".to_owned(),
                    others => format!(", like {others} other ranks"),
                };
                format!(
                    "{} is behind{others}: it is at “{}”, and the others have waited {}, at “{}”. \
                     See what holds up that process, its GPU and its network. If this is merely \
                     slow, {remedy}",
                    last.full_name(),
                    last.doing(),
                    since(first.stands_ms, now),
                    first.doing()
                )
            }
            StuckJob::Even {
                last,
                ranks,
                unreached: Some(unreached),
            } => format!(
                "all {ranks} ranks that can be monitored have made no progress {}: {}. They may \
                 be waiting for {}, which cannot be monitored: check whether that process is \
                 stopped, and its GPU and network. If this is merely slow, {remedy}",
                since(last.stands_ms, now),
                last.doing(),
                unreached.in_words()
            ),
            StuckJob::Even {
                last,
                ranks,
                unreached: None,
            } => format!(
                "all {ranks} ranks, such as {}, are at the same point and have made no progress \
                 {}: {}. None is behind the others, so the operation itself is stuck, in the \
                 library, on a GPU or in the network. If this is merely slow, {remedy}",
                last.full_name(),
                since(last.stands_ms, now),
                last.doing()
            ),
        }
    }
}

fn silence(silent: &Silent, now: DateTime<Local>) -> String {
    let Silent {
        report,
        for_ms,
        behind_it,
    } = silent;
    let more = match behind_it {
        0 => String::new(),
        1 => ", and with it the rank that reports through it".to_owned(),
        ranks => format!(", and with it the {ranks} ranks that report through it"),
    };
    format!(
        "{} has been silent {}{more}, and the others wait for it: it was at “{}”. The process is \
         stopped, or the node is frozen or cut off: see that process and the kernel log of {}",
        report.full_name(),
        since(*for_ms, now),
        report.doing(),
        report.host
    )
}

/// Returns how messages say that something has been so for a time: `since 17:52:42, for 3 s`.
fn since(milliseconds: u64, now: DateTime<Local>) -> String {
    let time = i64::try_from(milliseconds).ok();
    let began = time.and_then(|time| now.checked_sub_signed(TimeDelta::milliseconds(time)));
    let seconds = milliseconds / 1000;
    match began {
        Some(began) => format!("since {}, for {seconds} s", began.format("%H:%M:%S")),
        None => format!("for {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::report::{StepPosition, tests::report},
        *,
    };
    use chrono::TimeZone;

    const T: Duration = Duration::from_secs(3);

    fn noon() -> DateTime<Local> {
        let noon = Local.with_ymd_and_hms(2024, 3, 1, 12, 0, 0);
        noon.single().expect("a time")
    }

    fn all_at(done: [u64; 4], stands_ms: u64) -> RankSummary {
        let mut all = RankSummary::of(&report(0, done[0], stands_ms));
        for (rank, done) in (1..).zip(&done[1..]) {
            all.add(&RankSummary::of(&report(rank, *done, stands_ms)), 0);
        }
        all
    }

    fn with_silent(mut all: RankSummary, for_ms: u64, behind_it: u32) -> RankSummary {
        let report = report(8, 120, 100);
        all.add_silent(Silent {
            report,
            for_ms,
            behind_it,
        });
        all
    }

    fn sentence(all: &RankSummary) -> Option<String> {
        Some(find(all, T)?.sentence(noon(), "raise --timeout"))
    }

    #[test]
    fn ranks_that_make_progress_are_well() {
        assert_eq!(sentence(&all_at([120, 121, 120, 120], 2999)), None);
        // One of them is.
        let mut all = all_at([120; 4], 9000);
        all.add(&RankSummary::of(&report(4, 500, 20)), 0);
        assert_eq!(sentence(&all), None);
    }

    #[test]
    fn a_silent_rank_is_named_when_the_others_wait_for_it() {
        let all = with_silent(all_at([121; 4], 2900), 3100, 0);
        assert_eq!(
            sentence(&all).expect("a sentence"),
            "rank 8 on node1 (GPU 0, pid 4008) has been silent since 11:59:56, for 3 s, and the \
             others wait for it: it was at “2000 times all_reduce 1G float sum, 120 of 2000 \
             operations done”. The process is stopped, or the node is frozen or cut off: see that \
             process and the kernel log of node1"
        );
        let all = with_silent(all_at([121; 4], 2900), 3100, 7);
        let text = sentence(&all).expect("a sentence");
        assert!(text.contains(", and with it the 7 ranks that report through it, and"));
    }

    #[test]
    fn a_silence_is_no_fault_while_it_is_short_or_the_others_make_progress() {
        assert_eq!(
            sentence(&with_silent(all_at([121; 4], 2900), 2900, 0)),
            None
        );
        assert_eq!(
            sentence(&with_silent(all_at([121; 4], 100), 60_000, 0)),
            None
        );
        // Nor are the others to blame while one is silent.
        assert_eq!(
            sentence(&with_silent(all_at([121; 4], 3000), 1600, 0)),
            None
        );
    }

    #[test]
    fn a_rank_that_is_behind_is_named_with_its_place_and_that_of_the_others() {
        let mut all = all_at([121; 4], 3200);
        let filling = ProgressReport {
            position: StepPosition { step: 6, done: 0 },
            total: 0,
            what: "filling the buffers of all_reduce 1G float sum".into(),
            ..report(5, 0, 3100)
        };
        all.add(&RankSummary::of(&filling), 0);
        assert_eq!(
            sentence(&all).expect("a sentence"),
            "rank 5 on node0 (GPU 5, pid 4005) is behind: it is at “filling the buffers of \
             all_reduce 1G float sum”, and the others have waited since 11:59:56, for 3 s, at \
             “2000 times all_reduce 1G float sum, 121 of 2000 operations done”. See what holds up \
             that process, its GPU and its network. If this is merely slow, raise --timeout"
        );
        let all = all_at([120, 121, 120, 120], 3000);
        let text = sentence(&all).expect("a sentence");
        assert!(
            text.contains(" is behind, like 2 other ranks: it is at"),
            "{text}"
        );
    }

    #[test]
    fn a_rank_that_waits_for_nothing_is_named_when_the_others_wait_for_too_long() {
        let idle = ProgressReport {
            position: StepPosition { step: 6, done: 0 },
            total: 0,
            what: String::new(),
            limit_ms: None,
            ..report(5, 0, 0)
        };
        let mut all = all_at([121; 4], 2999);
        all.add(&RankSummary::of(&idle), 0);
        assert_eq!(sentence(&all), None);
        let mut all = all_at([121; 4], 3000);
        all.add(&RankSummary::of(&idle), 0);
        let text = sentence(&all).expect("a sentence");
        assert!(
            text.contains(" is behind: it is at “work of its own”, and the others have waited")
        );
        assert_eq!(sentence(&RankSummary::of(&idle)), None);
    }

    #[test]
    fn ranks_at_one_place_are_not_blamed() {
        assert_eq!(
            sentence(&all_at([120; 4], 3000)).expect("a sentence"),
            "all 4 ranks, such as rank 0 on node0 (GPU 0, pid 4000), are at the same point and \
             have made no progress since 11:59:57, for 3 s: 2000 times all_reduce 1G float sum, \
             120 of 2000 operations done. None is behind the others, so the operation itself is \
             stuck, in the library, on a GPU or in the network. If this is merely slow, raise \
             --timeout"
        );
    }

    #[test]
    fn a_rank_that_the_watch_has_lost_is_named_once_the_others_wait() {
        let mut all = all_at([120; 4], 3000);
        let lost = |ranks| Unreached {
            ranks,
            example: "rank 8 on node1 (process 4008)".into(),
        };
        all.add_unreached(&lost(1));
        assert_eq!(
            sentence(&all).expect("a sentence"),
            "all 4 ranks that can be monitored have made no progress since 11:59:57, for 3 s: \
             2000 times all_reduce 1G float sum, 120 of 2000 operations done. They may be waiting \
             for rank 8 on node1 (process 4008), which cannot be monitored: check whether that \
             process is stopped, and its GPU and network. If this is merely slow, raise --timeout"
        );
        all.add_unreached(&lost(2));
        let several = sentence(&all).expect("a sentence");
        assert!(
            several.contains("waiting for 3 ranks, such as rank 8 on node1 (process 4008), which"),
            "{several}"
        );
    }

    #[test]
    fn times_beyond_the_calendar_are_no_panic() {
        assert_eq!(
            since(u64::MAX, noon()),
            format!("for {} s", u64::MAX / 1000)
        );
        assert_eq!(
            since(i64::MAX as u64, noon()),
            format!("for {} s", i64::MAX / 1000)
        );
    }
}
