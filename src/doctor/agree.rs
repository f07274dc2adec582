//! What ranks have to agree on: NCCL's settings, and the time.

use std::collections::BTreeSet;

use super::{Check, CheckOutcome, NONE, RankFacts, all, list, same};

pub(super) const CHECKS: &[Check] = &[
    all(
        "env.same",
        "the same NCCL settings on all ranks, but for those of a node",
        settings_same,
    ),
    all("host.clock", "the nodes' clocks agree", clock),
];

/// Settings that may differ from node to node, and why.
const PER_NODE: [(&str, &[&str]); 5] = [
    (
        "devices have other names on other nodes",
        &[
            "NCCL_SOCKET_IFNAME",
            "NCCL_OOB_NET_IFNAME",
            "NCCL_IB_HCA",
            "NCCL_IB_GID_INDEX",
            "NCCL_IGNORE_CPU_AFFINITY",
            "NCCL_PROXY_CPUSET",
        ],
    ),
    (
        "a node's own hardware is in the file",
        &["NCCL_TOPO_FILE", "NCCL_CONF_FILE"],
    ),
    (
        "files that are written, and which rank writes them",
        &[
            "NCCL_TOPO_DUMP_FILE",
            "NCCL_TOPO_DUMP_FILE_RANK",
            "NCCL_GRAPH_DUMP_FILE",
            "NCCL_GRAPH_DUMP_FILE_RANK",
        ],
    ),
    (
        "what is logged changes nothing",
        &[
            "NCCL_DEBUG",
            "NCCL_DEBUG_FILE",
            "NCCL_DEBUG_SUBSYS",
            "NCCL_DEBUG_TIMESTAMP_FORMAT",
            "NCCL_DEBUG_TIMESTAMP_LEVELS",
            "NCCL_WARN_ENABLE_DEBUG_INFO",
            "NCCL_SET_THREAD_NAME",
        ],
    ),
    ("it names a node", &["NCCL_HOSTID"]),
];

fn why_per_node(name: &str) -> Option<&'static str> {
    PER_NODE
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map(|(why, _)| *why)
}

/// All settings that must be the same, in one line.
fn settings(one: &RankFacts) -> String {
    let shared = one
        .settings
        .iter()
        .filter(|(name, _)| why_per_node(name).is_none());
    let all: Vec<String> = shared
        .map(|(name, set)| format!("{name}={}", set.value))
        .collect();
    if all.is_empty() {
        NONE.into()
    } else {
        all.join(" ")
    }
}

fn settings_same(job: &[RankFacts]) -> CheckOutcome {
    let remedy = "set them in the job script, or put the same nccl.conf on all nodes: ranks that differ hang or mix data";
    let verdict = same(
        job,
        "NCCL settings",
        |one| Some(settings(one)),
        remedy,
        true,
    );
    let names: BTreeSet<&str> = job
        .iter()
        .flat_map(|one| one.settings.iter().map(|(name, _)| name))
        .collect();
    let differs = |name: &str| {
        job.iter()
            .any(|one| one.settings.get(name) != job[0].settings.get(name))
    };
    let may: Vec<String> = names
        .into_iter()
        .filter(|name| differs(name))
        .filter_map(|name| Some(format!("{name} ({})", why_per_node(name)?)))
        .collect();
    match verdict {
        CheckOutcome::Ok { evidence } if !may.is_empty() => CheckOutcome::ok(format!(
            "{evidence}; these differ, as they may: {}",
            list(&may)
        )),
        CheckOutcome::NotApplicable { .. } if !may.is_empty() => {
            CheckOutcome::ok(format!("only these differ, as they may: {}", list(&may)))
        }
        verdict => verdict,
    }
}

/// Logs of nodes are merged by time, and tickets of file systems and of munge go by it.
fn clock(job: &[RankFacts]) -> CheckOutcome {
    /// Ranks leave a barrier within less, also on a busy machine.
    const ENOUGH: f64 = 1.0;
    let hosts: BTreeSet<&str> = job.iter().map(|one| one.host.as_str()).collect();
    let first = job.iter().min_by(|a, b| a.clock.total_cmp(&b.clock));
    let last = job.iter().max_by(|a, b| a.clock.total_cmp(&b.clock));
    let (Some(first), Some(last), true) = (first, last, hosts.len() > 1) else {
        return CheckOutcome::none("there is one host only");
    };
    let spread = last.clock - first.clock;
    match spread > ENOUGH {
        true => CheckOutcome::warning(
            format!(
                "at one moment the clock of {} is {spread:.2} s ahead of that of {}",
                last.host, first.host
            ),
            "let chronyd or ntpd set the clocks (chronyc tracking): logs of nodes are merged by time",
        ),
        false => CheckOutcome::ok(format!("within {spread:.3} s")),
    }
}
