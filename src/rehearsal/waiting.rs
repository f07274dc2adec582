//! Messages that a rail does not send: what a job that is stuck waits for.

use std::cmp::Reverse;

use super::counters::{ProcessCounters, WaitingMessages};
use crate::units::counted;

/// How long a message that flows may take to leave its rail, in milliseconds.
const SOON_MS: u64 = 1000;

/// The most rails that are named.
const MOST_NAMED: usize = 4;

/// Returns which rails hold messages back, those that do so for the longest time first; `None` if
/// none does.
pub fn clause(processes: &[ProcessCounters]) -> Option<String> {
    let mut held: Vec<(u64, &WaitingMessages)> = Vec::new();
    for process in processes {
        let waiting = process.waiting.iter();
        let too_long = waiting.filter(|waiting| waiting.oldest_ms >= SOON_MS);
        held.extend(too_long.map(|waiting| (process.rank, waiting)));
    }
    held.sort_by_key(|(_, waiting)| Reverse(waiting.oldest_ms));
    let named = held.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|(rank, waiting)| of_rail(*rank, waiting))
        .collect();
    let others = held.len().saturating_sub(MOST_NAMED) as u64;
    if others > 0 {
        named.push(format!("so do {}", counted(others, "other rail")));
    }
    (!named.is_empty()).then(|| named.join("; "))
}

fn of_rail(rank: u64, waiting: &WaitingMessages) -> String {
    format!(
        "rail {} of rank {rank} holds {} back, the oldest for {:.1} s",
        waiting.rail,
        counted(waiting.messages, "message"),
        waiting.oldest_ms as f64 / 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(rank: u64, waiting: &[(u64, u64, u64)]) -> ProcessCounters {
        let waiting = waiting
            .iter()
            .map(|(rail, messages, oldest_ms)| WaitingMessages {
                rail: *rail,
                messages: *messages,
                bytes: 8,
                oldest_ms: *oldest_ms,
            });
        ProcessCounters {
            format: 1,
            rank,
            node: "node0".into(),
            rails: 2,
            sent: Vec::new(),
            received: Vec::new(),
            played: Vec::new(),
            waiting: waiting.collect(),
        }
    }

    #[test]
    fn the_rail_that_waits_longest_is_named_first() {
        let all = [
            process(0, &[(0, 1, 20), (1, 3, 12_000)]),
            process(2, &[(1, 1, 15_100)]),
        ];
        assert_eq!(
            clause(&all).as_deref(),
            Some(
                "rail 1 of rank 2 holds 1 message back, the oldest for 15.1 s; rail 1 of rank 0 \
                 holds 3 messages back, the oldest for 12.0 s"
            )
        );
    }

    #[test]
    fn messages_that_flow_are_not_named_and_many_rails_are_counted() {
        assert_eq!(clause(&[process(0, &[(0, 3, 999)])]), None);
        let all: Vec<_> = (0..6).map(|rank| process(rank, &[(0, 1, 5000)])).collect();
        let said = clause(&all).expect("rails");
        assert!(said.ends_with("; so do 2 other rails"), "{said}");
    }
}
