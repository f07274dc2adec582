//! What a log comes to: the report as a value, and the verdict.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    fold::{Fold, SendCounts, Topic},
    line::{Channels, Path},
    reason::{PxnVerdict, Reason},
};

/// Relays in a report.
const RELAYS: usize = 4096;
/// Lines of evidence in a report.
const EVIDENCE: usize = 12;

/// Who relayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayUse {
    /// The host's name; empty where the line was torn.
    pub host: String,
    /// The rank whose NIC it is, by the number of its communicator.
    pub rank: u64,
    /// The NIC: the network's name and NCCL's number.
    pub nic: String,
    /// Send/recv connections through it.
    pub send_recv: u64,
    /// Connections of collectives through it.
    pub collective: u64,
}

/// An algorithm and protocol that NCCL chose, and for which sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlgorithmChoice {
    /// As NCCL calls the operation; empty before 2.23.
    pub function: String,
    /// As NCCL calls it.
    pub algorithm: String,
    /// As NCCL calls it; empty for kernels without one.
    pub protocol: String,
    /// The smallest size it was chosen for, bytes.
    pub from_bytes: u64,
    /// The largest.
    pub to_bytes: u64,
    /// How often.
    pub times: u64,
}

/// Lines of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// All.
    pub read: u64,
    /// NCCL's.
    pub nccl: u64,
    /// Those that begin like something known and go on otherwise.
    pub not_understood: u64,
    /// Those that another process's line or the end of the log tore.
    pub torn: u64,
}

/// GPUDirect RDMA at both ends of network connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuDirect {
    /// Sending ends with it.
    pub sends: u64,
    /// Of so many.
    pub of_sends: u64,
    /// Receiving ends with it.
    pub receives: u64,
    /// Of so many.
    pub of_receives: u64,
}

/// What NCCL says when its rings are connected, once a rank and communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rings {
    /// How often it says so.
    pub connected: u64,
    /// Of those, how often with the two numbers (2.24).
    pub with_numbers: u64,
    /// `use ring PXN 1`.
    pub pxn: u64,
    /// `GDR 1`.
    pub gpudirect: u64,
}

/// What a log proves.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// Was PXN used?
    pub verdict: PxnVerdict,
    /// Why.
    pub reason: Reason,
    /// What else applies, the most likely first.
    pub also: Vec<Reason>,
    /// Why connections of send/recv are not relayed; none where they are, or there are none.
    pub send_recv_reason: Option<Reason>,
    /// Why connections of collectives are not relayed.
    pub collective_reason: Option<Reason>,
    /// Send/recv over a network.
    pub send_recv: SendCounts,
    /// Collectives over a network.
    pub collective: SendCounts,
    /// Network connections of which the line does not say what they are for (before 2.12).
    pub unsorted: SendCounts,
    /// GPUDirect RDMA at both ends.
    pub gpudirect: GpuDirect,
    /// Connections by transport, counted at the end that sends.
    pub transports: BTreeMap<String, u64>,
    /// Who relayed through which NIC.
    pub relays: Vec<RelayUse>,
    /// Relayed connections whose relay is not in the list, because it is too long.
    pub relays_left_out: u64,
    /// NCCL's versions.
    pub versions: Vec<String>,
    /// Networks in use.
    pub networks: Vec<String>,
    /// Network plugins, with the version of their interface.
    pub plugins: Vec<String>,
    /// Nodes of the largest communicator.
    pub nodes: Option<u64>,
    /// Its ranks.
    pub ranks: Option<u64>,
    /// How many of them speak in the log. Where it is fewer, the counts are of those only.
    pub ranks_in_log: u64,
    /// Host names.
    pub hosts: u64,
    /// Processes.
    pub processes: u64,
    /// Processes that began to make a communicator and did not come to its end.
    pub unfinished_processes: u64,
    /// Communicators. Rank numbers are each communicator's own.
    pub communicators: u64,
    /// Channels of the last communicator.
    pub channels: Option<Channels>,
    /// Rings.
    pub rings: Rings,
    /// How often NCCL says that its trees are connected.
    pub trees: u64,
    /// What was chosen, for which sizes. Rank 0 logs it.
    pub algorithms: Vec<AlgorithmChoice>,
    /// Settings that NCCL says it read from the environment or a file: each value (at most 32), and how often.
    pub settings: BTreeMap<String, BTreeMap<String, u64>>,
    /// Warnings of NCCL's.
    pub warnings: u64,
    /// Lines of others that speak of a segmentation fault.
    pub segmentation_faults: u64,
    /// The first of NCCL's warnings.
    pub first_warning: Option<String>,
    /// Lines.
    pub lines: LineCounts,
    /// The lines that the verdict rests on.
    pub evidence: Vec<String>,
    /// Examples of lines that were not understood.
    pub not_understood: Vec<String>,
}

impl Proof {
    /// What `fold` comes to.
    pub(super) fn of(fold: &Fold) -> Proof {
        let judged = judge(fold);
        let seen = fold.connections();
        let both = |one: fn(&SendCounts) -> u64| {
            one(&seen.send_recv) + one(&seen.collective) + one(&seen.unsorted)
        };
        let mut relays: Vec<RelayUse> = fold.relays.values().cloned().collect();
        relays.sort_by(|a, b| (&a.host, a.rank, &a.nic).cmp(&(&b.host, b.rank, &b.nic)));
        let over: u64 = relays
            .iter()
            .skip(RELAYS)
            .map(|relay| relay.send_recv + relay.collective)
            .sum();
        relays.truncate(RELAYS);
        let (with_numbers, pxn, gpudirect) = fold.ring_numbers;
        Proof {
            verdict: judged.verdict,
            reason: judged.reasons[0],
            also: judged.reasons[1..].to_vec(),
            send_recv_reason: judged.send_recv,
            collective_reason: judged.collective,
            send_recv: seen.send_recv,
            collective: seen.collective,
            unsorted: seen.unsorted,
            gpudirect: GpuDirect {
                sends: both(|kind| kind.gpudirect_sends),
                of_sends: both(|kind| kind.sends),
                receives: both(|kind| kind.gpudirect_receives),
                of_receives: both(|kind| kind.receives),
            },
            transports: seen.by.clone(),
            relays,
            relays_left_out: fold.relays_left_out + over,
            versions: fold.versions.iter().cloned().collect(),
            networks: fold.networks.iter().cloned().collect(),
            plugins: fold.plugins.iter().cloned().collect(),
            nodes: fold.nodes,
            ranks: fold.ranks,
            ranks_in_log: fold.ranks_seen.len() as u64,
            hosts: fold.hosts.len() as u64,
            processes: fold.processes() as u64,
            unfinished_processes: fold.unfinished() as u64,
            communicators: fold.communicators(),
            channels: seen.channels,
            rings: Rings {
                connected: fold.rings,
                with_numbers,
                pxn,
                gpudirect,
            },
            trees: fold.trees,
            algorithms: fold.choices.clone(),
            settings: settings(fold),
            warnings: fold.warnings,
            segmentation_faults: fold.signals,
            first_warning: fold.quoted(Topic::Warning).first().cloned(),
            lines: fold.lines,
            evidence: evidence(fold, &judged.reasons),
            not_understood: [Topic::Unclear, Topic::Torn]
                .iter()
                .flat_map(|at| fold.quoted(*at))
                .cloned()
                .collect(),
        }
    }
}

fn settings(fold: &Fold) -> BTreeMap<String, BTreeMap<String, u64>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let values = |values: &super::fold::Setting| {
        values
            .iter()
            .map(|(value, (count, _))| (text(value), *count))
            .collect()
    };
    fold.settings
        .iter()
        .map(|(name, of)| (text(name), values(of)))
        .collect()
}

struct Judged {
    verdict: PxnVerdict,
    /// At least one.
    reasons: Vec<Reason>,
    send_recv: Option<Reason>,
    collective: Option<Reason>,
}

fn judge(fold: &Fold) -> Judged {
    let seen = fold.connections();
    let (send_recv, collective) = (
        not_relayed(fold, &seen.send_recv, true),
        not_relayed(fold, &seen.collective, false),
    );
    let mut reasons = Vec::new();
    let verdict = if seen.relayed() > 0 {
        reasons.push(Reason::Relayed);
        PxnVerdict::Used
    } else if seen.sends() > 0 {
        reasons.extend((seen.unsorted.sends > 0).then_some(Reason::NcclTooOld));
        for reason in send_recv.iter().chain(&collective) {
            if !reasons.contains(reason) {
                reasons.push(*reason);
            }
        }
        PxnVerdict::NotUsed
    } else {
        let (verdict, reason) = without_sends(fold);
        reasons.push(reason);
        verdict
    };
    let verdict = troubles(fold, verdict, &mut reasons);
    Judged {
        verdict,
        reasons,
        send_recv: send_recv.first().copied(),
        collective: collective.first().copied(),
    }
}

/// The verdict in view of what went wrong in the job, whose place among `reasons` is by its weight.
fn troubles(fold: &Fold, verdict: PxnVerdict, reasons: &mut Vec<Reason>) -> PxnVerdict {
    if reasons[0] == Reason::OneNode {
        return verdict;
    }
    if fold.unfinished() > 0 {
        // Connections of which nobody came to use one prove nothing.
        let at = if fold.is_never_ready() {
            0
        } else {
            reasons.len()
        };
        reasons.insert(at, Reason::Crash);
    }
    if fold.host_buffers {
        reasons.insert(0, Reason::HostBuffers);
    }
    let is_used = verdict == PxnVerdict::Used && reasons[0] != Reason::Crash;
    if matches!(reasons[0], Reason::Crash | Reason::HostBuffers) && !is_used {
        PxnVerdict::CannotTell
    } else {
        verdict
    }
}

/// The verdict where nothing was sent over a network, as far as the log says.
fn without_sends(fold: &Fold) -> (PxnVerdict, Reason) {
    let seen = fold.connections();
    let is_local = !seen.by.is_empty() && fold.hosts.len() <= 1;
    match fold.nodes {
        _ if seen.by.keys().any(|name| name.starts_with("COLLNET/")) => {
            (PxnVerdict::NotUsed, Reason::Collnet)
        }
        Some(1) => (PxnVerdict::NotUsed, Reason::OneNode),
        _ if fold.nvlink_joins_nodes && !seen.by.is_empty() => {
            (PxnVerdict::NotUsed, Reason::NvlinkJoinsNodes)
        }
        None if is_local && !fold.is_never_ready() => (PxnVerdict::NotUsed, Reason::OneNode),
        _ if fold.info == 0 => (PxnVerdict::CannotTell, Reason::TooQuiet),
        None if seen.by.is_empty() && fold.processes() == 0 => {
            (PxnVerdict::CannotTell, Reason::NoInit)
        }
        _ => (PxnVerdict::CannotTell, Reason::NoConnection),
    }
}

/// How often NCCL says that `name` is one of `values`.
fn is_set(fold: &Fold, name: &str, values: &[&str]) -> bool {
    let set = fold.settings.get(name.as_bytes());
    set.is_some_and(|set| {
        values
            .iter()
            .any(|value| set.contains_key(value.as_bytes()))
    })
}

/// Why none of `kind` is relayed, the most likely first; none where some are, or there are none.
fn not_relayed(fold: &Fold, kind: &SendCounts, is_send_recv: bool) -> Vec<Reason> {
    if kind.sends == 0 || kind.relayed > 0 {
        return Vec::new();
    }
    let paths = fold.paths;
    let only_sockets = fold
        .connections()
        .by
        .keys()
        .filter(|name| name.starts_with("NET/"))
        .all(|name| name == "NET/Socket");
    let p2p_off =
        is_set(fold, "NCCL_P2P_DISABLE", &["1"]) || is_set(fold, "NCCL_P2P_LEVEL", &["LOC", "0"]);
    let mut found = Vec::new();
    let mut when = |applies: bool, reason| {
        if applies {
            found.push(reason);
        }
    };
    when(is_set(fold, "NCCL_PXN_DISABLE", &["1"]), Reason::PxnOff);
    when(fold.plugin_too_old, Reason::PluginTooOld);
    when(only_sockets, Reason::Sockets);
    when(p2p_off, Reason::P2pOff);
    let no_nic_has_it = fold.gpudirect.0 == 0 && fold.gpudirect.1 > 0;
    // With one PXN path to a NIC, GPUDirect works for somebody; without PXN a graph may use NICs that are too far for it.
    let no_gpudirect = kind.gpudirect_sends == 0
        && !paths.nics.has(Path::PXN)
        && (found.is_empty() || no_nic_has_it);
    let mut when = |applies: bool, reason| {
        if applies {
            found.push(reason);
        }
    };
    when(no_gpudirect && !only_sockets, Reason::NoGpudirect);
    when(
        !p2p_off && !paths.gpus.is_none() && !paths.gpus.has(Path::NVL),
        Reason::NoNvlink,
    );
    when(fold.local_ranks == Some(1), Reason::NoRelayGpu);
    if is_send_recv {
        when(is_set(fold, "NCCL_P2P_PXN_LEVEL", &["0"]), Reason::Level0);
        when(kind.same_rail == kind.sends, Reason::SameRail);
        when(is_set(fold, "NCCL_P2P_PXN_LEVEL", &["1"]), Reason::Level1);
    } else if found.is_empty() {
        // What stops PXN altogether also changes the graph, which then says nothing.
        found.extend(of_graph(fold));
    }
    if found.is_empty() {
        found.push(if paths.gpus.is_none() {
            Reason::NoGraph
        } else {
            Reason::Unexplained
        });
    }
    found
}

/// Why the graph of a collective needs no relay, where the log says so.
fn of_graph(fold: &Fold) -> Option<Reason> {
    let is_tree = |name: &str| name.eq_ignore_ascii_case("tree");
    let only_trees = fold.rings == 0
        && (fold.trees > 0
            || (!fold.choices.is_empty()
                && fold.choices.iter().all(|choice| is_tree(&choice.algorithm))));
    if only_trees && !fold.tree_path.has(Path::PXN) {
        return Some(Reason::Tree);
    }
    if fold.ring_path.is_none() || fold.ring_path.has(Path::PXN) {
        return None;
    }
    let crosses = is_set(fold, "NCCL_CROSS_NIC", &["1"]) && fold.paths.nics.has(Path::PXN);
    Some(if crosses {
        Reason::CrossNic
    } else {
        Reason::OwnPath
    })
}

/// The settings that have a say in PXN.
const SETTINGS: &[&str] = &[
    "NCCL_PXN_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_CROSS_NIC",
    "NCCL_NET",
    "NCCL_IB_DISABLE",
    "NCCL_ALGO",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_CUMEM_ENABLE",
];

/// The lines that the reasons rest on.
fn evidence(fold: &Fold, reasons: &[Reason]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut quote = |lines: &[String]| {
        for line in lines {
            if found.len() < EVIDENCE && !found.contains(line) {
                found.push(line.clone());
            }
        }
    };
    for reason in reasons {
        for topic in topics(*reason) {
            quote(fold.quoted(*topic));
        }
    }
    for name in SETTINGS {
        for (_, line) in fold
            .settings
            .get(name.as_bytes())
            .into_iter()
            .flat_map(BTreeMap::values)
        {
            quote(std::slice::from_ref(line));
        }
    }
    for topic in [
        Topic::Network,
        Topic::RelayUse,
        Topic::SendRecv,
        Topic::Collective,
    ] {
        quote(
            fold.quoted(topic)
                .first()
                .map(std::slice::from_ref)
                .unwrap_or_default(),
        );
    }
    found
}

/// What the lines speak of that a reason rests on.
fn topics(reason: Reason) -> &'static [Topic] {
    match reason {
        Reason::Relayed => &[Topic::RelayUse, Topic::Rings],
        Reason::HostBuffers => &[Topic::HostBuffers],
        Reason::Crash => &[Topic::Signal, Topic::Start],
        Reason::OneNode | Reason::NvlinkJoinsNodes => &[Topic::Size, Topic::Local],
        Reason::NcclTooOld => &[Topic::Version, Topic::Collective],
        Reason::PluginTooOld => &[Topic::PluginTooOld],
        Reason::Sockets => &[Topic::Network, Topic::SendRecv, Topic::Collective],
        Reason::NoGpudirect => &[
            Topic::GpuDirect,
            Topic::TooFar,
            Topic::SendRecv,
            Topic::Collective,
        ],
        Reason::NoNvlink | Reason::Unexplained => &[Topic::Paths],
        Reason::NoRelayGpu => &[Topic::Size],
        Reason::PxnOff | Reason::P2pOff | Reason::Level0 | Reason::SameRail | Reason::Level1 => &[],
        Reason::Tree => &[Topic::Trees, Topic::TreePattern],
        Reason::CrossNic | Reason::OwnPath => &[Topic::Rings, Topic::RingPattern],
        Reason::Collnet => &[Topic::CollNet],
        Reason::NoGraph => &[Topic::Rings],
        Reason::TooQuiet => &[Topic::Version, Topic::Warning],
        Reason::NoInit => &[Topic::Version],
        Reason::NoConnection => &[Topic::Size],
    }
}
