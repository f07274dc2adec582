//! What a level changed against the one before, in words.

use std::collections::BTreeSet;

use super::{
    rehearsed_case::RehearsedCase,
    table::percent,
    theory::{RailBytes, Share},
};

/// Returns what `case` shows otherwise than `before`, a case that differs in the level only.
pub(super) fn change(before: &RehearsedCase, case: &RehearsedCase) -> String {
    let mut said = Vec::new();
    if before.sends != case.sends {
        said.push(change_of_sends(before.sends, case.sends));
    }
    let (then, now) = (
        before.rails_of_one_operation(),
        case.rails_of_one_operation(),
    );
    if sent(&then).ne(sent(&now)) {
        said.push(change_of_rails(&then, &now));
    }
    let (then, now) = (percent(before.crossing), percent(case.crossing));
    if then != now {
        said.push(format!("{now} of the bytes cross rails instead of {then}"));
    }
    if before.nccl_algorithm != case.nccl_algorithm {
        let (then, now) = (before.algorithm_name(), case.algorithm_name());
        said.push(format!("algorithm {now} instead of {then}"));
    }
    if said.is_empty() {
        return format!("same as {}", before.level);
    }
    said.join("; ")
}

fn change_of_sends(then: Share, now: Share) -> String {
    let before = if then.whole == now.whole {
        then.part.to_string()
    } else {
        format!("{} of {}", then.part, then.whole)
    };
    format!(
        "{} of {} sends are relayed instead of {before}",
        now.part, now.whole
    )
}

/// Returns the bytes that each rail carries.
fn sent(rails: &[RailBytes]) -> impl Iterator<Item = u64> {
    rails.iter().map(|rail| rail.sent)
}

/// Returns which rails carry bytes now or no longer, or that all carry others.
fn change_of_rails(then: &[RailBytes], now: &[RailBytes]) -> String {
    let pairs: Vec<(&RailBytes, &RailBytes)> = then.iter().zip(now).collect();
    let rails_where = |is_so: &dyn Fn(&RailBytes, &RailBytes) -> bool| {
        let found = pairs.iter().filter(|(then, now)| is_so(then, now));
        let found: Vec<&RailBytes> = found.map(|(_, now)| *now).collect();
        names(&found, now)
    };
    let filled = rails_where(&|then, now| then.sent == 0 && now.sent > 0);
    let emptied = rails_where(&|then, now| then.sent > 0 && now.sent == 0);
    let mut said = Vec::new();
    for (rails, what) in [(filled, "now used"), (emptied, "no longer used")] {
        if !rails.is_empty() {
            said.push(format!("{what}: {}", rails.join(", ")));
        }
    }
    if said.is_empty() {
        return "the rails carry other numbers of bytes".into();
    }
    said.join("; ")
}

/// Names these of all rails, those of one number together.
fn names(these: &[&RailBytes], all: &[RailBytes]) -> Vec<String> {
    let numbers: BTreeSet<usize> = these.iter().map(|rail| rail.rail).collect();
    let mut names = Vec::new();
    for number in numbers {
        let nodes = these.iter().filter(|rail| rail.rail == number);
        let nodes: Vec<String> = nodes.map(|rail| rail.node.to_string()).collect();
        let on_all = all.iter().filter(|rail| rail.rail == number).count();
        match nodes.len() {
            count if count == on_all => names.push(format!("rail {number}")),
            1 => names.push(format!("rail {number} of node {}", nodes[0])),
            _ => names.push(format!("rail {number} of nodes {}", nodes.join(", "))),
        }
    }
    names
}
