//! Comparing the processes of a job, and naming those that share an outcome.

use std::collections::BTreeMap;

use super::outcome::CheckOutcome;
use crate::{facts::ranks::RankFacts, units::counted};

/// The value that stands for "this process is known to have none".
pub(super) const NONE: &str = "none";

/// The consequence if processes differ.
#[derive(Clone, Copy)]
pub(super) struct Difference<'a> {
    /// What to do about it.
    pub remedy: &'a str,
    /// Whether the job fails, instead of being slower.
    pub fails: bool,
}

/// Checks that `value` is the same on all processes.
///
/// `value` is [`NONE`] for a process that has none, which differs from one that has some, and
/// `None` for a process that does not know it or does not need it.
pub(super) fn same_everywhere(
    job: &[RankFacts],
    what: &str,
    value: impl Fn(&RankFacts) -> Option<String>,
    difference: Difference,
) -> CheckOutcome {
    let mut processes_by_value: BTreeMap<String, Vec<&RankFacts>> = BTreeMap::new();
    for process in job {
        if let Some(value) = value(process) {
            processes_by_value.entry(value).or_default().push(process);
        }
    }
    let Some(first) = processes_by_value.keys().next() else {
        return CheckOutcome::not_applicable(format!("no process knows its {what}"));
    };
    let is_same = processes_by_value.len() == 1;
    if is_same && first == NONE {
        return CheckOutcome::not_applicable(format!("no process reported any {what}"));
    }
    if job.len() == 1 {
        return CheckOutcome::not_applicable("there is only one process");
    }
    let values: Vec<String> = processes_by_value
        .iter()
        .map(|(value, processes)| format!("{value} on {}", name_processes(processes, job)))
        .collect();
    let values = values.join("; ");
    if is_same {
        return CheckOutcome::ok(format!("{what}: {values}"));
    }
    let evidence = format!("not the same {what} everywhere: {values}");
    CheckOutcome::finding(difference.fails, evidence, difference.remedy)
}

/// Names `some` of the processes of `job`: `all`, `node3`, or `node3 (rank 1, 5)`; long lists are
/// cut.
pub(super) fn name_processes(some: &[&RankFacts], job: &[RankFacts]) -> String {
    const MOST_HOSTS: usize = 4;
    if some.len() == job.len() {
        return "all".into();
    }
    let mut ranks_by_host: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for process in some {
        let ranks = ranks_by_host.entry(&process.host).or_default();
        ranks.push(process.rank);
    }
    let mut names = Vec::new();
    for (host, ranks) in ranks_by_host.iter().take(MOST_HOSTS) {
        let all_ranks = job.iter().filter(|process| process.host == **host).count();
        if ranks.len() == all_ranks {
            names.push((*host).to_owned());
        } else {
            names.push(format!("{host} (rank {})", list(ranks)));
        }
    }
    let names = names.join(", ");
    match ranks_by_host.len().saturating_sub(MOST_HOSTS) {
        0 => names,
        more => format!("{names} and {}", counted(more, "more host")),
    }
}

/// Groups the processes by node.
pub(super) fn by_node(job: &[RankFacts]) -> BTreeMap<u32, Vec<&RankFacts>> {
    let mut nodes: BTreeMap<u32, Vec<&RankFacts>> = BTreeMap::new();
    for process in job {
        nodes.entry(process.node).or_default().push(process);
    }
    nodes
}

/// Joins items with commas.
pub(super) fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(", ")
}

/// Joins the names with commas; [`NONE`] if there are none.
pub(super) fn list_or_none<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        NONE.into()
    } else {
        list(items)
    }
}
