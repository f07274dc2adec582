//! Whom the start of MPI waits for. MPI cannot tell: `MPI_Init` returns only when all ranks have
//! reached it.

use super::rank_folder::ProcessState;

/// A rank of this node that has reached the start of MPI, and what its process does now.
pub(super) struct StartedRank {
    pub(super) rank: u32,
    pub(super) pid: u32,
    pub(super) state: ProcessState,
}

/// What the launcher says of the ranks.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    /// The number of all ranks.
    pub(super) all: u32,
    /// The number of those on this node, if the launcher says it.
    pub(super) here: Option<u32>,
}

/// Whom the start of MPI waits for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::world) struct AwaitedAtStart {
    /// The ranks, as messages name them.
    pub(in crate::world) who: String,
    /// Whether they are of this node.
    pub(in crate::world) is_here: bool,
    /// The first rank of this node that waits.
    pub(in crate::world) first_waiting: Option<u32>,
}

/// Returns whom the start of MPI waits for; `None` if that is unknown. `started` is by rank.
pub(super) fn awaited(
    started: &[StartedRank],
    expected: Expected,
    host: &str,
) -> Option<AwaitedAtStart> {
    let mut waiting = started.iter();
    let first_waiting = waiting.find(|rank| rank.state == ProcessState::Running);
    let awaited = |who: String, is_here| AwaitedAtStart {
        who,
        is_here,
        first_waiting: first_waiting.map(|first| first.rank),
    };
    if let Some(halted) = started.iter().find_map(|rank| halted(rank, host)) {
        return Some(awaited(halted, true));
    }
    let here = expected.here?;
    let is_only_node = here == expected.all;
    Some(match started.len() as u32 == here {
        true if is_only_node => awaited(
            format!("MPI itself: all {here} ranks have reached MPI_Init"),
            false,
        ),
        true => awaited(
            format!(
                "ranks of other nodes, or MPI itself: all {here} ranks on {host} have reached \
                 MPI_Init"
            ),
            false,
        ),
        false => awaited(missing(started, here, is_only_node, host), true),
    })
}

/// Returns how messages name a rank that cannot go on; `None` if it can.
fn halted(started: &StartedRank, host: &str) -> Option<String> {
    let what = match started.state {
        ProcessState::Stopped => "is stopped by a signal",
        ProcessState::Lost | ProcessState::Left | ProcessState::Failed(_) => "has ended",
        ProcessState::Running => return None,
    };
    let StartedRank { rank, pid, .. } = started;
    Some(format!("rank {rank} on {host} (pid {pid}), which {what}"))
}

/// Returns how messages name the ranks of this node that have not reached the start of MPI, of
/// `here` ranks in total.
fn missing(started: &[StartedRank], here: u32, is_only_node: bool, host: &str) -> String {
    let numbers: Vec<u32> = started.iter().map(|rank| rank.rank).collect();
    let count = here.saturating_sub(numbers.len() as u32);
    // Which numbers the ranks of a node have is known only if there is no other node.
    let who = if is_only_node {
        let missing: Vec<u32> = (0..here).filter(|rank| !numbers.contains(rank)).collect();
        format!("{} on {host}", ranks(&missing))
    } else {
        format!("{count} of the {here} ranks on {host}")
    };
    format!(
        "{who}, which {} not reached MPI_Init (not started, stopped or ended before, or another \
         program); {} reached it",
        if count == 1 { "has" } else { "have" },
        match numbers.len() {
            1 => format!("{} has", ranks(&numbers)),
            _ => format!("{} have", ranks(&numbers)),
        }
    )
}

/// Returns `rank 3`, `ranks 0, 1 and 3`; of many the first few and their number.
fn ranks(numbers: &[u32]) -> String {
    const SHOWN: usize = 8;
    let words: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    match (&words[..], numbers.len()) {
        ([], _) => "no rank".into(),
        ([only], 1) => format!("rank {only}"),
        ([first @ .., last], all) if all <= SHOWN => {
            format!("ranks {} and {last}", first.join(", "))
        }
        (words, all) => format!("ranks {} and {} more", words.join(", "), all - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(ranks: &[u32]) -> Vec<StartedRank> {
        let of_rank = |rank: &u32| StartedRank {
            rank: *rank,
            pid: 100 + rank,
            state: ProcessState::Running,
        };
        ranks.iter().map(of_rank).collect()
    }

    fn said(started: &[StartedRank], all: u32, here: Option<u32>) -> Option<String> {
        let awaited = awaited(started, Expected { all, here }, "n1")?;
        let is_elsewhere = awaited.who.contains("MPI itself");
        assert_eq!(awaited.is_here, !is_elsewhere);
        Some(awaited.who)
    }

    #[test]
    fn the_rank_that_is_missing_is_named() {
        assert_eq!(
            said(&started(&[0, 1, 3]), 4, Some(4)).as_deref(),
            Some(
                "rank 2 on n1, which has not reached MPI_Init (not started, stopped or ended \
                 before, or another program); ranks 0, 1 and 3 have reached it"
            )
        );
        let of_two_nodes = said(&started(&[4]), 8, Some(4)).expect("known");
        assert!(
            of_two_nodes.starts_with("3 of the 4 ranks on n1, which have not reached MPI_Init")
                && of_two_nodes.ends_with("; rank 4 has reached it"),
            "{of_two_nodes}"
        );
        let many: Vec<u32> = (1..40).collect();
        let many = said(&started(&many), 40, Some(40)).expect("known");
        assert!(
            many.starts_with("rank 0 on n1") && many.contains("7, 8 and 31 more have"),
            "{many}"
        );
    }

    #[test]
    fn a_rank_that_stopped_or_ended_is_named_with_its_process() {
        let mut all = started(&[0, 1, 2]);
        all[1].state = ProcessState::Stopped;
        assert_eq!(
            said(&all, 3, None).as_deref(),
            Some("rank 1 on n1 (pid 101), which is stopped by a signal")
        );
        all[1].state = ProcessState::Lost;
        assert_eq!(
            said(&all, 3, None).as_deref(),
            Some("rank 1 on n1 (pid 101), which has ended")
        );
    }

    #[test]
    fn the_first_rank_that_waits_is_known() {
        let first = |started: &[StartedRank]| {
            let expected = Expected {
                all: 8,
                here: Some(4),
            };
            awaited(started, expected, "n1").and_then(|awaited| awaited.first_waiting)
        };
        assert_eq!(first(&started(&[5, 6])), Some(5));
        let mut all = started(&[4, 5, 6, 7]);
        all[0].state = ProcessState::Stopped;
        assert_eq!(first(&all), Some(5));
        assert_eq!(first(&[]), None);
    }

    #[test]
    fn what_cannot_be_known_is_not_said() {
        assert_eq!(said(&started(&[0, 1]), 4, None), None);
        let all_here = said(&started(&[0, 1]), 4, Some(2)).expect("known");
        assert!(
            all_here.starts_with("ranks of other nodes, or MPI itself: all 2 ranks on n1"),
            "{all_here}"
        );
        let all = said(&started(&[0, 1]), 2, Some(2)).expect("known");
        assert!(all.starts_with("MPI itself: all 2 ranks"), "{all}");
    }
}
