//! What ranks have to agree on: NCCL's settings, and the time.

use std::collections::BTreeSet;

use super::{
    check::Check,
    compare::{Difference, list, list_or_none, same_everywhere},
    outcome::CheckOutcome,
};
use crate::facts::ranks::RankFacts;

pub(super) const CHECKS: &[Check] = &[
    Check::across_job(
        "env.same",
        "the same NCCL settings on all ranks, except those that are specific to a node",
        settings_same,
    ),
    Check::across_job("host.clock", "the nodes' clocks agree", clock),
];

/// Settings that may differ from node to node.
struct PerNode {
    /// Why they may differ.
    why: &'static str,
    names: &'static [&'static str],
}

const PER_NODE: [PerNode; 5] = [
    PerNode {
        why: "device names differ between nodes",
        names: &[
            "NCCL_SOCKET_IFNAME",
            "NCCL_OOB_NET_IFNAME",
            "NCCL_IB_HCA",
            "NCCL_IB_GID_INDEX",
            "NCCL_IGNORE_CPU_AFFINITY",
            "NCCL_PROXY_CPUSET",
        ],
    },
    PerNode {
        why: "the file describes the hardware of one node",
        names: &["NCCL_TOPO_FILE", "NCCL_CONF_FILE"],
    },
    PerNode {
        why: "output files, and the rank that writes them",
        names: &[
            "NCCL_TOPO_DUMP_FILE",
            "NCCL_TOPO_DUMP_FILE_RANK",
            "NCCL_GRAPH_DUMP_FILE",
            "NCCL_GRAPH_DUMP_FILE_RANK",
        ],
    },
    PerNode {
        why: "logging changes nothing else",
        names: &[
            "NCCL_DEBUG",
            "NCCL_DEBUG_FILE",
            "NCCL_DEBUG_SUBSYS",
            "NCCL_DEBUG_TIMESTAMP_FORMAT",
            "NCCL_DEBUG_TIMESTAMP_LEVELS",
            "NCCL_WARN_ENABLE_DEBUG_INFO",
            "NCCL_SET_THREAD_NAME",
        ],
    },
    PerNode {
        why: "it names a node",
        names: &["NCCL_HOSTID"],
    },
];

fn why_per_node(name: &str) -> Option<&'static str> {
    let reason = PER_NODE.iter().find(|group| group.names.contains(&name))?;
    Some(reason.why)
}

/// Returns the settings that must be the same everywhere, as one line.
fn shared_settings(process: &RankFacts) -> String {
    let mut settings = Vec::new();
    for (name, setting) in process.settings.iter() {
        if why_per_node(name).is_none() {
            settings.push(format!("{name}={}", setting.value));
        }
    }
    if settings.is_empty() {
        list_or_none(&settings)
    } else {
        settings.join(" ")
    }
}

/// Returns the settings that differ between ranks and may do so, each with the reason.
fn allowed_differences(job: &[RankFacts]) -> Vec<String> {
    let names: BTreeSet<&str> = job
        .iter()
        .flat_map(|process| process.settings.iter().map(|(name, _)| name))
        .collect();
    let mut allowed = Vec::new();
    for name in names {
        let first = job[0].settings.get(name);
        let differs = job
            .iter()
            .any(|process| process.settings.get(name) != first);
        if let Some(why) = why_per_node(name).filter(|_| differs) {
            allowed.push(format!("{name} ({why})"));
        }
    }
    allowed
}

fn settings_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "set them in the job script, or put the same nccl.conf on all nodes: ranks that \
                 differ hang or mix data",
        fails: true,
    };
    let outcome = same_everywhere(
        job,
        "NCCL settings",
        |process| Some(shared_settings(process)),
        difference,
    );
    let allowed = allowed_differences(job);
    if allowed.is_empty() {
        return outcome;
    }
    let allowed = list(&allowed);
    match outcome {
        CheckOutcome::Ok { evidence } => {
            CheckOutcome::ok(format!("{evidence}; these may differ, and do: {allowed}"))
        }
        CheckOutcome::NotApplicable { .. } => CheckOutcome::ok(format!(
            "the only differences are in settings that may differ: {allowed}"
        )),
        finding => finding,
    }
}

/// Compares the clocks: logs of nodes are merged by time, and tickets of file systems and of munge
/// depend on it.
fn clock(job: &[RankFacts]) -> CheckOutcome {
    /// Seconds; ranks leave a barrier within less, even on a busy machine.
    const TOLERANCE: f64 = 1.0;
    let hosts: BTreeSet<&str> = job.iter().map(|process| process.host.as_str()).collect();
    let first = job.iter().min_by(|a, b| a.clock.total_cmp(&b.clock));
    let last = job.iter().max_by(|a, b| a.clock.total_cmp(&b.clock));
    let (Some(first), Some(last), true) = (first, last, hosts.len() > 1) else {
        return CheckOutcome::not_applicable("there is only one host");
    };
    let spread = last.clock - first.clock;
    if spread <= TOLERANCE {
        return CheckOutcome::ok(format!("within {spread:.3} s"));
    }
    CheckOutcome::warning(
        format!(
            "the clock of {} is {spread:.2} s ahead of that of {}",
            last.host, first.host
        ),
        "let chronyd or ntpd set the clocks (chronyc tracking): logs of nodes are merged by time",
    )
}
