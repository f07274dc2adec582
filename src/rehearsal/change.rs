//! What a level changed against the one before, in words.

use std::collections::BTreeMap;

use super::{rehearsed_case::RehearsedCase, table::percent};

/// Returns what `case` shows otherwise than `before`, a case that differs in the level only.
pub(super) fn change(before: &RehearsedCase, case: &RehearsedCase) -> String {
    let mut said = Vec::new();
    if before.sends != case.sends {
        let (now, then) = (case.sends, before.sends);
        let then = if then.whole == now.whole {
            then.part.to_string()
        } else {
            format!("{} of {}", then.part, then.whole)
        };
        said.push(format!(
            "{} of {} sends are relayed, before {then}",
            now.part, now.whole
        ));
    }
    let (now, then) = (sent(case), sent(before));
    if now != then {
        said.push(rails(&then, &now));
    }
    let (now, then) = (percent(case.crossing), percent(before.crossing));
    if now != then {
        said.push(format!("{now} of the bytes cross rails, before {then}"));
    }
    if before.nccl_algorithm != case.nccl_algorithm {
        let name = |case: &RehearsedCase| case.algorithm_name().to_owned();
        said.push(format!("algorithm {}, before {}", name(case), name(before)));
    }
    if said.is_empty() {
        return format!("as {}", before.level);
    }
    said.join("; ")
}

/// Returns the bytes of one operation by node and rail.
fn sent(case: &RehearsedCase) -> Vec<(u64, usize, u64)> {
    let rails = case.rails_of_one_operation();
    let rails = rails.iter();
    rails
        .map(|rail| (rail.node, rail.rail, rail.sent))
        .collect()
}

/// Returns which rails carry other bytes than before.
fn rails(then: &[(u64, usize, u64)], now: &[(u64, usize, u64)]) -> String {
    let mut filled: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    let mut emptied: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for ((node, rail, now), (_, _, then)) in now.iter().zip(then) {
        match (then, now) {
            (0, 1..) => filled.entry(*rail).or_default().push(*node),
            (1.., 0) => emptied.entry(*rail).or_default().push(*node),
            _ => {}
        }
    }
    let nodes = now.iter().map(|(node, ..)| node).max();
    let nodes = nodes.map_or(0, |last| last + 1);
    let mut said = Vec::new();
    for (rails, what) in [(filled, "now used"), (emptied, "no longer used")] {
        let rails: Vec<String> = rails
            .iter()
            .map(|(rail, of)| named(*rail, of, nodes))
            .collect();
        if !rails.is_empty() {
            said.push(format!("{what}: {}", rails.join(", ")));
        }
    }
    if said.is_empty() {
        return "the rails carry other numbers of bytes".into();
    }
    said.join("; ")
}

/// Names a rail of these of all nodes.
fn named(rail: usize, of: &[u64], nodes: u64) -> String {
    if of.len() as u64 == nodes {
        return format!("rail {rail}");
    }
    let of: Vec<String> = of.iter().map(u64::to_string).collect();
    let noun = if of.len() == 1 { "node" } else { "nodes" };
    format!("rail {rail} of {noun} {}", of.join(" and "))
}
