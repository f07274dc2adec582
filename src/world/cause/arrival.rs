//! Which ranks of this node have come as far as the start of MPI, which cannot tell: it waits for all of them.

use super::rank_folder::ProcessState;

/// A rank of this node that has come, and what its process does now.
pub(super) struct Arrival {
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

/// Returns whom the start of MPI waits for, as a deadline says it; `None` if that is unknown. `arrived` is by rank.
pub(super) fn awaited(arrived: &[Arrival], expected: Expected, host: &str) -> Option<String> {
    let process = |arrival: &Arrival| {
        let Arrival { rank, pid, .. } = arrival;
        format!("rank {rank} on {host} (pid {pid})")
    };
    for arrival in arrived {
        match &arrival.state {
            ProcessState::Stopped => {
                return Some(format!(
                    "{}, which is stopped by a signal",
                    process(arrival)
                ));
            }
            ProcessState::Lost | ProcessState::Left | ProcessState::Failed(_) => {
                return Some(format!("{}, which has ended", process(arrival)));
            }
            ProcessState::Running => {}
        }
    }
    let here = expected.here?;
    let come = arrived.len() as u32;
    if come == here {
        return Some(match here == expected.all {
            true => format!("MPI itself: all {here} ranks have come as far as this"),
            false => format!(
                "ranks of other nodes, or MPI itself: all {here} ranks on {host} have come as far as this"
            ),
        });
    }
    let numbers: Vec<u32> = arrived.iter().map(|arrival| arrival.rank).collect();
    let missing: Vec<u32> = (0..expected.all)
        .filter(|rank| !numbers.contains(rank))
        .collect();
    // Which numbers the ranks of a node have is known only if there is no other node.
    let who = match here == expected.all {
        true => format!("{} on {host}", ranks(&missing)),
        false => format!(
            "{} of the {here} ranks on {host}",
            here.saturating_sub(come)
        ),
    };
    Some(format!(
        "{who}, of which nothing was seen: not started, ended or stopped before, or no pxnbench; {} come as far as this",
        match numbers.len() {
            1 => format!("{} has", ranks(&numbers)),
            _ => format!("{} have", ranks(&numbers)),
        }
    ))
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

    fn arrived(ranks: &[u32]) -> Vec<Arrival> {
        let of_rank = |rank: &u32| Arrival {
            rank: *rank,
            pid: 100 + rank,
            state: ProcessState::Running,
        };
        ranks.iter().map(of_rank).collect()
    }

    fn said(arrived: &[Arrival], all: u32, here: Option<u32>) -> Option<String> {
        awaited(arrived, Expected { all, here }, "n1")
    }

    #[test]
    fn the_rank_that_is_missing_is_named() {
        assert_eq!(
            said(&arrived(&[0, 1, 3]), 4, Some(4)).as_deref(),
            Some(
                "rank 2 on n1, of which nothing was seen: not started, ended or stopped before, or no pxnbench; ranks 0, 1 and 3 \
                 have come as far as this"
            )
        );
        let of_two_nodes = said(&arrived(&[4]), 8, Some(4)).expect("known");
        assert!(
            of_two_nodes.starts_with("3 of the 4 ranks on n1, of which")
                && of_two_nodes.ends_with("; rank 4 has come as far as this"),
            "{of_two_nodes}"
        );
        let many: Vec<u32> = (1..40).collect();
        let many = said(&arrived(&many), 40, Some(40)).expect("known");
        assert!(
            many.starts_with("rank 0 on n1") && many.contains("7, 8 and 31 more have"),
            "{many}"
        );
    }

    #[test]
    fn a_rank_that_stopped_or_ended_is_named_with_its_process() {
        let mut all = arrived(&[0, 1, 2]);
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
    fn what_cannot_be_known_is_not_said() {
        assert_eq!(said(&arrived(&[0, 1]), 4, None), None);
        let all_here = said(&arrived(&[0, 1]), 4, Some(2)).expect("known");
        assert!(
            all_here.starts_with("ranks of other nodes, or MPI itself: all 2 ranks on n1"),
            "{all_here}"
        );
        let all = said(&arrived(&[0, 1]), 2, Some(2)).expect("known");
        assert!(all.starts_with("MPI itself: all 2 ranks"), "{all}");
    }
}
