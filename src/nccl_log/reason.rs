//! Verdicts on PXN, and every reason for one: the only list of them.

use serde::Serialize;

/// What a log says of PXN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PxnVerdict {
    /// At least one connection goes through the NIC of another GPU.
    Used,
    /// There are connections, or there can be none, and none of them is relayed.
    NotUsed,
    /// The log does not say, or ends before any process was ready.
    CannotTell,
}

impl PxnVerdict {
    /// As people say it.
    pub fn words(self) -> &'static str {
        match self {
            PxnVerdict::Used => "used",
            PxnVerdict::NotUsed => "not used",
            PxnVerdict::CannotTell => "cannot tell",
        }
    }
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Connections are relayed.
    Relayed,
    /// NCCL chose PXN and then refused its own choice.
    HostBuffers,
    /// The log of a process ends before NCCL was ready.
    Crash,
    /// Everything ran on one node.
    OneNode,
    /// NVLink joins the nodes.
    NvlinkJoinsNodes,
    /// `NCCL_PXN_DISABLE=1`.
    PxnOff,
    /// NCCL has no PXN.
    NcclTooOld,
    /// The network plugin's interface is v4.
    PluginTooOld,
    /// The network is TCP sockets.
    Sockets,
    /// `NCCL_P2P_DISABLE=1`, or a level of P2P that excludes NVLink.
    P2pOff,
    /// No GPUDirect RDMA.
    NoGpudirect,
    /// GPUs of a node are not joined by NVLink.
    NoNvlink,
    /// One rank a node: no GPU to relay through.
    NoRelayGpu,
    /// `NCCL_P2P_PXN_LEVEL=0`.
    Level0,
    /// `NCCL_P2P_PXN_LEVEL=1`, and the own path is good enough.
    Level1,
    /// Every message goes to the peer on the same rail.
    SameRail,
    /// Only trees were used, and they need no relay.
    Tree,
    /// `NCCL_CROSS_NIC=1`.
    CrossNic,
    /// The ring reaches its NICs without a relay.
    OwnPath,
    /// Collectives went through CollNet.
    Collnet,
    /// The graph is not in the log.
    NoGraph,
    /// The preconditions that the log shows are met.
    Unexplained,
    /// The log holds no INFO line.
    TooQuiet,
    /// The log lacks the lines of communicators and connections.
    NoInit,
    /// Nothing has been sent between nodes yet.
    NoConnection,
}

/// A reason, what it means, and what to do.
#[derive(Debug)]
pub struct ReasonInfo {
    /// Which.
    pub reason: Reason,
    /// Its name in JSON.
    pub name: &'static str,
    /// What it means, as a sentence.
    pub meaning: &'static str,
    /// What to do, as a sentence.
    pub remedy: &'static str,
}

const fn row(
    reason: Reason,
    name: &'static str,
    meaning: &'static str,
    remedy: &'static str,
) -> ReasonInfo {
    ReasonInfo {
        reason,
        name,
        meaning,
        remedy,
    }
}

/// What to set so that the log holds all that is looked for.
pub const HOW_TO_LOG: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log";

/// All reasons, in about the order in which they are likely.
pub const REASONS: &[ReasonInfo] = &[
    row(
        Reason::HostBuffers,
        "host_buffers",
        "NCCL chose PXN and then refused it, because GPUDirect RDMA is not usable for the relay.",
        "Make GPUDirect RDMA work (NCCL_NET_GDR_READ, NCCL_NET_GDR_LEVEL, nvidia-peermem or dma-buf), or set NCCL_PXN_DISABLE=1.",
    ),
    row(
        Reason::Crash,
        "crash",
        "The log of a process ends before NCCL was ready: it crashed or was stopped, so its connections carried nothing that \
         the log shows.",
        "Look at what the job itself said. NCCL_P2P_PXN_LEVEL=1 together with NCCL_RUNTIME_CONNECT=0 or NCCL_CUMEM_ENABLE=0 \
         crashes NCCL from 2.21.5 on: change one of them.",
    ),
    row(
        Reason::Relayed,
        "relayed",
        "Connections go through the NIC of another GPU.",
        "Nothing.",
    ),
    row(
        Reason::NcclTooOld,
        "nccl_too_old",
        "NCCL has PXN since 2.12, and its lines of network connections show an older one.",
        "Use a newer NCCL.",
    ),
    row(
        Reason::OneNode,
        "one_node",
        "All ranks are on one node, and PXN is for traffic between nodes.",
        "Use two nodes or more.",
    ),
    row(
        Reason::NvlinkJoinsNodes,
        "nvlink_joins_nodes",
        "NVLink joins the nodes (MNNVL), and all connections go over it, none over a network.",
        "Nothing.",
    ),
    row(
        Reason::PxnOff,
        "pxn_off",
        "NCCL_PXN_DISABLE=1 turns PXN off.",
        "Unset NCCL_PXN_DISABLE; look into nccl.conf files too.",
    ),
    row(
        Reason::PluginTooOld,
        "plugin_too_old",
        "The network plugin speaks version 4 of the interface, which has no PXN.",
        "Use a newer plugin, or NCCL's own network (NCCL_NET_PLUGIN=none).",
    ),
    row(
        Reason::Sockets,
        "sockets",
        "The network in use is TCP sockets. They have no GPUDirect RDMA, without which there is no PXN.",
        "Find out why NCCL did not take InfiniBand or the site's plugin (NCCL_NET, NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_NET_PLUGIN).",
    ),
    row(
        Reason::P2pOff,
        "p2p_off",
        "P2P between GPUs is turned off, so no GPU can hand its data to a relay.",
        "Unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL.",
    ),
    row(
        Reason::NoGpudirect,
        "no_gpudirect",
        "No connection uses GPUDirect RDMA, without which NCCL does not relay.",
        "Load nvidia-peermem or use dma-buf, and unset NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ.",
    ),
    row(
        Reason::NoNvlink,
        "no_nvlink",
        "GPUs of a node do not reach each other over NVLink, which a relay needs.",
        "None on such a machine; where there is NVLink, look for links that are down.",
    ),
    row(
        Reason::NoRelayGpu,
        "no_relay_gpu",
        "The communicator has one rank a node, so there is no GPU to relay through.",
        "Put several ranks on each node into the communicator.",
    ),
    row(
        Reason::Level0,
        "level0",
        "NCCL_P2P_PXN_LEVEL=0: send/recv is never relayed.",
        "Unset it, or set it to 2, to relay send/recv.",
    ),
    row(
        Reason::SameRail,
        "same_rail",
        "Every message goes to the peer with the same GPU number, whose NIC is on the sender's own rail.",
        "Nothing: no relay could help. An alltoall over all ranks crosses rails.",
    ),
    row(
        Reason::Level1,
        "level1",
        "NCCL_P2P_PXN_LEVEL=1 relays send/recv only where the peer's NIC is not reachable through PCI switches, and here it is.",
        "Set it to 2 to relay all the same.",
    ),
    row(
        Reason::Tree,
        "tree",
        "Only trees were used, and their graph reaches its NICs without a relay.",
        "Nothing; NCCL_ALGO=Ring shows what a ring does.",
    ),
    row(
        Reason::CrossNic,
        "cross_nic",
        "NCCL_CROSS_NIC=1 lets a ring leave by another NIC than it came in, so it needs no relay.",
        "Unset it if the network's rails are separate.",
    ),
    row(
        Reason::OwnPath,
        "own_path",
        "Each GPU of the graph reaches its NIC well enough by its own path, so NCCL needs no relay.",
        "Nothing: PXN would gain nothing for collectives here.",
    ),
    row(
        Reason::Collnet,
        "collnet",
        "Collectives went through the network's own reduction (CollNet), not through rings or trees.",
        "Unset NCCL_COLLNET_ENABLE to see rings and trees.",
    ),
    row(
        Reason::NoGraph,
        "no_graph",
        "No connection is relayed; why cannot be said, because the log holds no lines of the GRAPH subsystem.",
        "Log GRAPH too.",
    ),
    row(
        Reason::Unexplained,
        "unexplained",
        "No connection is relayed although all that the log shows would allow it. NCCL also needs a rank of the same \
         communicator on the GPU next to the peer's NIC.",
        "Look whether the communicator spans all GPUs of each node.",
    ),
    row(
        Reason::TooQuiet,
        "too_quiet",
        "The log holds NCCL's version or warnings only.",
        "Set NCCL_DEBUG=INFO.",
    ),
    row(
        Reason::NoInit,
        "no_init",
        "The log lacks the lines of communicators and connections, which belong to the subsystem INIT.",
        "Name INIT in NCCL_DEBUG_SUBSYS, or unset it.",
    ),
    row(
        Reason::NoConnection,
        "no_connection",
        "The log shows no connection between nodes. NCCL makes one when the first operation needs it.",
        "Run an operation, and read the log after it.",
    ),
];

impl Reason {
    /// Its row.
    pub fn row(self) -> &'static ReasonInfo {
        REASONS
            .iter()
            .find(|row| row.reason == self)
            .unwrap_or(&REASONS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_row_and_its_name_in_json() {
        for row in REASONS {
            assert_eq!(serde_json::to_value(row.reason).expect("json"), row.name);
            assert!(
                row.meaning.ends_with('.') && row.remedy.ends_with('.'),
                "{}",
                row.name
            );
        }
        assert_eq!(REASONS.len(), Reason::NoConnection as usize + 1);
    }
}
