//! Why traffic over a network is not relayed.

use super::{facts::LogFacts, line::PathTypes, reason::Reason};

/// Finds why no send/recv connection is relayed, the most likely reason first.
pub(super) fn find_send_recv_causes(facts: &LogFacts) -> Vec<Reason> {
    let sends = &facts.connections.send_recv;
    let mut causes = find_common_causes(facts, sends.gpudirect_sends > 0);
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
        causes.push(unknown_cause(facts));
    }
    causes
}

/// Finds why no connection of a collective is relayed, the most likely reason first.
pub(super) fn find_collective_causes(facts: &LogFacts) -> Vec<Reason> {
    let sends = &facts.connections.collective;
    let mut causes = find_common_causes(facts, sends.gpudirect_sends > 0);
    // What turns PXN off altogether also changes the graph, which then explains nothing.
    if causes.is_empty() {
        causes.extend(find_graph_cause(facts));
    }
    if causes.is_empty() {
        causes.push(unknown_cause(facts));
    }
    causes
}

/// Finds what keeps any traffic from being relayed. `has_gpudirect` tells whether a send of the traffic has GPUDirect RDMA.
fn find_common_causes(facts: &LogFacts, has_gpudirect: bool) -> Vec<Reason> {
    let settings = &facts.settings;
    let paths = facts.graph.node_paths;
    let only_sockets = facts.connections.has_only_sockets();
    let p2p_off = settings.is_any("NCCL_P2P_DISABLE", &["1"])
        || settings.is_any("NCCL_P2P_LEVEL", &["LOC", "0"]);
    let mut causes = Vec::new();
    if settings.is_any("NCCL_PXN_DISABLE", &["1"]) {
        causes.push(Reason::PxnOff);
    }
    if facts.network.plugin_too_old {
        causes.push(Reason::PluginTooOld);
    }
    if only_sockets {
        causes.push(Reason::Sockets);
    }
    if p2p_off {
        causes.push(Reason::P2pOff);
    }
    // A PXN path to a NIC shows that GPUDirect works for some GPU. Without PXN a graph may use NICs that are too far away
    // for GPUDirect, which then is a consequence and no cause, unless no NIC has it.
    let may_lack_gpudirect = causes.is_empty() || facts.network.lacks_gpudirect();
    let has_pxn_path = paths.nics.has(PathTypes::PXN);
    if !has_gpudirect && !has_pxn_path && may_lack_gpudirect && !only_sockets {
        causes.push(Reason::NoGpudirect);
    }
    if !p2p_off && !paths.gpus.is_empty() && !paths.gpus.has(PathTypes::NVL) {
        causes.push(Reason::NoNvlink);
    }
    if facts.participants.has_one_rank_per_node() {
        causes.push(Reason::NoRelayGpu);
    }
    causes
}

/// Finds why the graph of a collective needs no relay, if the log shows it.
fn find_graph_cause(facts: &LogFacts) -> Option<Reason> {
    let graph = &facts.graph;
    let has_trees = graph.trees > 0 || facts.choices.are_all_trees();
    let has_only_trees = graph.rings.connected == 0 && has_trees;
    if has_only_trees && !graph.tree_paths.has(PathTypes::PXN) {
        return Some(Reason::Tree);
    }
    if graph.ring_paths.is_empty() || graph.ring_paths.has(PathTypes::PXN) {
        return None;
    }
    let crosses_nics = facts.settings.is_any("NCCL_CROSS_NIC", &["1"]);
    if crosses_nics && graph.node_paths.nics.has(PathTypes::PXN) {
        Some(Reason::CrossNic)
    } else {
        Some(Reason::OwnPath)
    }
}

/// Returns the reason if no other was found.
fn unknown_cause(facts: &LogFacts) -> Reason {
    if facts.graph.node_paths.gpus.is_empty() {
        Reason::NoGraph
    } else {
        Reason::Unexplained
    }
}
