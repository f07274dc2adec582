//! Messages that a rail does not send: what a job that is stuck waits for.

use std::{cmp::Reverse, collections::BTreeMap};

use super::counters::ProcessCounters;
use crate::units::counted;

/// How long a message that flows may take to leave its rail, in milliseconds.
const SOON_MS: u64 = 1000;

/// The most rails that are named.
const MOST_NAMED: usize = 4;

/// Returns which rails hold messages back, those that do so for the longest time first; `None` if none does.
pub fn clause(processes: &[ProcessCounters]) -> Option<String> {
    let mut held: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for process in processes {
        for one in &process.waiting {
            let (messages, oldest) = held.entry((process.rank, one.rail)).or_default();
            *messages = messages.saturating_add(one.messages);
            *oldest = one.oldest_ms.max(*oldest);
        }
    }
    held.retain(|_, (_, oldest)| *oldest >= SOON_MS);
    let mut held: Vec<_> = held.into_iter().collect();
    held.sort_by_key(|(_, (_, oldest))| Reverse(*oldest));
    let named = held.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|((rank, rail), (messages, oldest))| {
            let messages = counted(*messages, "message");
            let seconds = *oldest as f64 / 1000.0;
            format!(
                "rail {rail} of rank {rank} holds {messages} back, the oldest for {seconds:.1} s"
            )
        })
        .collect();
    if held.len() > MOST_NAMED {
        let others = (held.len() - MOST_NAMED) as u64;
        named.push(format!("so do {}", counted(others, "other rail")));
    }
    (!named.is_empty()).then(|| named.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::counters::WaitingMessages;

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
            process(0, &[(0, 1, 20), (1, 2, 9500), (1, 1, 12_000)]),
            process(2, &[(1, 1, 15_100)]),
        ];
        assert_eq!(
            clause(&all).as_deref(),
            Some(
                "rail 1 of rank 2 holds 1 message back, the oldest for 15.1 s; rail 1 of rank 0 holds 3 messages back, the oldest for 12.0 s"
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
