//! Why the traffic of a communicator over a network is not relayed.

use super::{communicator::Communicator, facts::LogFacts, line::PathTypes, reason::Reason};

/// What rules PXN out for all traffic of a communicator.
struct Blocker {
    reason: Reason,
    /// Returns whether it explains that connections are not relayed.
    explains: fn(&Communicator, &LogFacts) -> bool,
    /// Returns whether it is certain enough to decide without a connection.
    decides: fn(&Communicator, &LogFacts) -> bool,
}

/// All of them, ordered so that the remedy of the first can help: what rules PXN out on any network
/// precedes what is wrong with this one.
const BLOCKERS: &[Blocker] = &[
    Blocker {
        reason: Reason::NcclTooOld,
        explains: has_no_pxn,
        decides: has_no_pxn,
    },
    Blocker {
        reason: Reason::PxnOff,
        explains: |_, facts| facts.settings.is_any("NCCL_PXN_DISABLE", &["1"]),
        decides: is_pxn_off,
    },
    Blocker {
        reason: Reason::NoRelayGpu,
        explains: |communicator, _| communicator.has_one_rank_per_node(),
        decides: |communicator, _| {
            communicator.has_one_rank_per_node() && !communicator.has_more_ranks_than_nodes()
        },
    },
    Blocker {
        reason: Reason::PluginTooOld,
        explains: |_, facts| facts.network.plugin_too_old,
        decides: |_, facts| facts.network.plugin_too_old,
    },
    Blocker {
        reason: Reason::Sockets,
        explains: |communicator, facts| {
            communicator.has_only_sockets() || uses_only_sockets(communicator, facts)
        },
        decides: uses_only_sockets,
    },
    Blocker {
        reason: Reason::P2pOff,
        explains: |_, facts| {
            facts.settings.is_any("NCCL_P2P_DISABLE", &["1"])
                || facts.settings.is_any("NCCL_P2P_LEVEL", &P2P_OFF_LEVELS)
        },
        decides: |_, facts| {
            facts.settings.is_only("NCCL_P2P_DISABLE", &["1"])
                || facts.settings.is_only("NCCL_P2P_LEVEL", &P2P_OFF_LEVELS)
        },
    },
];

/// Levels of P2P that exclude NVLink.
const P2P_OFF_LEVELS: [&str; 2] = ["LOC", "0"];

/// Blockers under which NCCL plans graphs without PXN, perhaps with NICs that are too far away for
/// GPUDirect RDMA.
const CHANGES_GRAPHS: [Reason; 4] = [
    Reason::PxnOff,
    Reason::PluginTooOld,
    Reason::Sockets,
    Reason::P2pOff,
];

/// Finds what is sure to rule PXN out for all traffic of `communicator`, also if the log has no
/// connection.
pub(super) fn find_deciding(communicator: &Communicator, facts: &LogFacts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for blocker in BLOCKERS {
        if (blocker.decides)(communicator, facts) {
            reasons.push(blocker.reason);
        }
    }
    reasons
}

/// Returns whether send/recv is sure not to be relayed whatever the connections.
pub(super) fn is_send_recv_off(facts: &LogFacts) -> bool {
    facts.settings.is_only("NCCL_P2P_PXN_LEVEL", &["0"])
}

/// Finds why no send/recv connection is relayed, the most likely reason first.
pub(super) fn find_send_recv_causes(communicator: &Communicator, facts: &LogFacts) -> Vec<Reason> {
    let sends = &communicator.traffic.send_recv;
    let mut causes = find_common_causes(communicator, facts, sends.gpudirect_sends > 0);
    if facts.settings.is_any("NCCL_P2P_PXN_LEVEL", &["0"]) {
        causes.push(Reason::Level0);
    }
    if sends.same_rail == sends.sends {
        causes.push(Reason::SameRail);
    }
    if facts.settings.is_any("NCCL_P2P_PXN_LEVEL", &["1"]) {
        causes.push(Reason::Level1);
    }
    if causes.is_empty() {
        causes.push(unknown_cause(communicator));
    }
    causes
}

/// Finds why no connection of a collective is relayed, the most likely reason first.
pub(super) fn find_collective_causes(communicator: &Communicator, facts: &LogFacts) -> Vec<Reason> {
    let sends = communicator.traffic.collective();
    let has_gpudirect = sends.gpudirect_sends > 0 || communicator.rings.gpudirect > 0;
    let mut causes = find_common_causes(communicator, facts, has_gpudirect);
    // What turns PXN off altogether also changes the graph, which then explains nothing.
    if causes.is_empty() {
        causes.extend(find_graph_cause(communicator, facts));
    }
    if causes.is_empty() {
        causes.push(unknown_cause(communicator));
    }
    causes
}

/// Finds what keeps any traffic from being relayed. `has_gpudirect` tells whether a send of the
/// traffic has GPUDirect RDMA.
fn find_common_causes(
    communicator: &Communicator,
    facts: &LogFacts,
    has_gpudirect: bool,
) -> Vec<Reason> {
    let paths = communicator.paths.nodes;
    let mut causes = Vec::new();
    for blocker in BLOCKERS {
        if (blocker.explains)(communicator, facts) {
            causes.push(blocker.reason);
        }
    }
    let is_p2p_off = causes.contains(&Reason::P2pOff);
    let has_sockets = causes.contains(&Reason::Sockets);
    if !is_p2p_off && !paths.gpus.is_empty() && !paths.gpus.has(PathTypes::NVL) {
        causes.push(Reason::NoNvlink);
    }
    // A PXN path to a NIC shows that GPUDirect works for some GPU. Without PXN a graph may use NICs
    // that are too far away for GPUDirect, which then is a consequence and no cause, unless no NIC
    // has it.
    let has_other_graph = causes.iter().any(|cause| CHANGES_GRAPHS.contains(cause));
    let may_lack_gpudirect = !has_other_graph || facts.network.lacks_gpudirect();
    let has_pxn_path = paths.nics.has(PathTypes::PXN);
    if !has_gpudirect && !has_pxn_path && may_lack_gpudirect && !has_sockets {
        causes.push(Reason::NoGpudirect);
    }
    causes
}

/// Returns whether NCCL is older than PXN, by its own word or by the form of its lines.
fn has_no_pxn(communicator: &Communicator, facts: &LogFacts) -> bool {
    let unsorted = &communicator.traffic.unsorted;
    let has_old_lines = unsorted.sends + unsorted.receives > 0 && unsorted.relayed == 0;
    has_old_lines || facts.network.is_older_than_pxn()
}

/// Returns whether PXN is off in the processes of `communicator`, or in all that say so if its own
/// do not.
fn is_pxn_off(communicator: &Communicator, facts: &LogFacts) -> bool {
    match communicator.pxn_off {
        Some(is_off) => is_off,
        None => facts.settings.is_only("NCCL_PXN_DISABLE", &["1"]),
    }
}

fn uses_only_sockets(communicator: &Communicator, facts: &LogFacts) -> bool {
    facts.network.is_sockets_only() && !communicator.has_other_network()
}

/// Finds why the graph of a collective needs no relay, if the log shows it.
fn find_graph_cause(communicator: &Communicator, facts: &LogFacts) -> Option<Reason> {
    let paths = &communicator.paths;
    let has_trees = communicator.trees > 0 || facts.choices.are_all_trees();
    let has_only_trees = communicator.rings.connected == 0 && has_trees;
    if has_only_trees && !paths.trees.has(PathTypes::PXN) {
        return Some(Reason::Tree);
    }
    if paths.rings.is_empty() || paths.rings.has(PathTypes::PXN) {
        return None;
    }
    let crosses_nics = facts.settings.is_any("NCCL_CROSS_NIC", &["1"]);
    if crosses_nics && paths.nodes.nics.has(PathTypes::PXN) {
        Some(Reason::CrossNic)
    } else {
        Some(Reason::OwnPath)
    }
}

/// Returns the reason if no other was found.
fn unknown_cause(communicator: &Communicator) -> Reason {
    if communicator.paths.is_empty() {
        Reason::NoGraph
    } else {
        Reason::Unexplained
    }
}
