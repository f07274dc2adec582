//! The reasons for a verdict on PXN: the only list of them.

use std::collections::BTreeMap;

use serde::Serialize;

/// A reason for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Connections are relayed.
    Relayed,
    /// NCCL chose PXN and then refused its own choice.
    HostBuffers,
    /// The log of a process ends before NCCL was ready, and something failed.
    Crash,
    /// Everything ran on one node.
    OneNode,
    /// NVLink joins the nodes.
    NvlinkJoinsNodes,
    /// `NCCL_PXN_DISABLE=1`.
    PxnOff,
    /// NCCL is older than PXN.
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
    /// One rank per node: no GPU to relay through.
    NoRelayGpu,
    /// `NCCL_P2P_PXN_LEVEL=0`.
    Level0,
    /// `NCCL_P2P_PXN_LEVEL=1`, and the sender's own path is good enough.
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
    /// The log has no INFO line.
    TooQuiet,
    /// The log lacks the lines about communicators and connections.
    NoInit,
    /// The log is cut before the first communicator was ready.
    CutEarly,
    /// The log lacks ranks, whose connections may be relayed.
    RanksMissing,
    /// Nothing has been sent between nodes yet.
    NoConnection,
}

/// A reason with its meaning and the remedy.
#[derive(Debug)]
pub struct ReasonInfo {
    /// The reason.
    pub reason: Reason,
    /// Its name in JSON.
    pub name: &'static str,
    /// The meaning, as a sentence.
    pub meaning: &'static str,
    /// The remedy, as a sentence.
    pub remedy: &'static str,
    /// More remedies, each for settings that are one cause.
    pub if_set: &'static [SettingRemedy],
}

/// A remedy for settings that the log shows.
#[derive(Debug)]
pub struct SettingRemedy {
    /// The names of all settings, and their values; `None` stands for any value.
    pub settings: &'static [(&'static str, Option<&'static str>)],
    /// The remedy, as a sentence.
    pub remedy: &'static str,
}

/// Remedies for settings that keep NCCL from using GPUDirect RDMA.
const GPUDIRECT_SETTINGS: &[SettingRemedy] = &[
    SettingRemedy {
        settings: &[("NCCL_NET_GDR_LEVEL", None)],
        remedy: "Unset NCCL_NET_GDR_LEVEL.",
    },
    SettingRemedy {
        settings: &[("NCCL_NET_GDR_READ", None)],
        remedy: "Unset NCCL_NET_GDR_READ.",
    },
];

/// All reasons, roughly the most likely first.
pub const REASONS: &[ReasonInfo] = &[
    ReasonInfo {
        reason: Reason::HostBuffers,
        name: "host_buffers",
        meaning: "NCCL chose PXN and then refused it, because GPUDirect RDMA is not usable for \
                  the relay.",
        remedy: "Make GPUDirect RDMA work (nvidia-peermem or dma-buf), or set NCCL_PXN_DISABLE=1.",
        if_set: GPUDIRECT_SETTINGS,
    },
    ReasonInfo {
        reason: Reason::Crash,
        name: "crash",
        meaning: "The log of a process ends before NCCL was ready, and reports a crash or a \
                  warning, so it does not show that its connections carried anything.",
        remedy: "Look at the job's own output.",
        if_set: &[
            SettingRemedy {
                settings: &[
                    ("NCCL_P2P_PXN_LEVEL", Some("1")),
                    ("NCCL_RUNTIME_CONNECT", Some("0")),
                ],
                remedy: "NCCL_P2P_PXN_LEVEL=1 together with NCCL_RUNTIME_CONNECT=0 crashes NCCL \
                         from 2.21.5 on: change one of them.",
            },
            SettingRemedy {
                settings: &[
                    ("NCCL_P2P_PXN_LEVEL", Some("1")),
                    ("NCCL_CUMEM_ENABLE", Some("0")),
                ],
                remedy: "NCCL_P2P_PXN_LEVEL=1 together with NCCL_CUMEM_ENABLE=0 crashes NCCL from \
                         2.21.5 on: change one of them.",
            },
        ],
    },
    ReasonInfo {
        reason: Reason::Relayed,
        name: "relayed",
        meaning: "Connections go through the NIC of another GPU.",
        remedy: "Nothing.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::NcclTooOld,
        name: "nccl_too_old",
        meaning: "PXN came with NCCL 2.12, and this is an older version, by its number or by the \
                  form of its lines.",
        remedy: "Use a newer NCCL.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::OneNode,
        name: "one_node",
        meaning: "All ranks are on one node, and PXN is for traffic between nodes.",
        remedy: "Use two nodes or more.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::NvlinkJoinsNodes,
        name: "nvlink_joins_nodes",
        meaning: "NVLink joins the nodes (MNNVL), and all connections go over it, none over a \
                  network.",
        remedy: "Nothing.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::PxnOff,
        name: "pxn_off",
        meaning: "NCCL_PXN_DISABLE=1 turns PXN off.",
        remedy: "Unset NCCL_PXN_DISABLE, in nccl.conf files too.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::PluginTooOld,
        name: "plugin_too_old",
        meaning: "The network plugin uses version 4 of the interface, which has no PXN.",
        remedy: "Use a newer plugin, or NCCL's own network (NCCL_NET_PLUGIN=none).",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::Sockets,
        name: "sockets",
        meaning: "The network in use is TCP sockets. They have no GPUDirect RDMA, without which \
                  there is no PXN.",
        remedy: "Find out why NCCL did not use InfiniBand or the site's plugin.",
        if_set: &[
            SettingRemedy {
                settings: &[("NCCL_NET", None)],
                remedy: "Check NCCL_NET.",
            },
            SettingRemedy {
                settings: &[("NCCL_IB_DISABLE", Some("1"))],
                remedy: "Unset NCCL_IB_DISABLE.",
            },
            SettingRemedy {
                settings: &[("NCCL_IB_HCA", None)],
                remedy: "Check NCCL_IB_HCA.",
            },
            SettingRemedy {
                settings: &[("NCCL_NET_PLUGIN", None)],
                remedy: "Check NCCL_NET_PLUGIN.",
            },
        ],
    },
    ReasonInfo {
        reason: Reason::P2pOff,
        name: "p2p_off",
        meaning: "P2P between GPUs is turned off, so no GPU can hand its data to a relay.",
        remedy: "Turn P2P on again.",
        if_set: &[
            SettingRemedy {
                settings: &[("NCCL_P2P_DISABLE", Some("1"))],
                remedy: "Unset NCCL_P2P_DISABLE.",
            },
            SettingRemedy {
                settings: &[("NCCL_P2P_LEVEL", None)],
                remedy: "Unset NCCL_P2P_LEVEL.",
            },
        ],
    },
    ReasonInfo {
        reason: Reason::NoGpudirect,
        name: "no_gpudirect",
        meaning: "No connection uses GPUDirect RDMA, without which NCCL does not relay.",
        remedy: "Load nvidia-peermem or use dma-buf.",
        if_set: GPUDIRECT_SETTINGS,
    },
    ReasonInfo {
        reason: Reason::NoNvlink,
        name: "no_nvlink",
        meaning: "GPUs of a node do not reach each other over NVLink, which a relay needs.",
        remedy: "Nothing on a machine without NVLink; otherwise look for links that are down.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::NoRelayGpu,
        name: "no_relay_gpu",
        meaning: "The communicator has one rank per node, so there is no GPU to relay through.",
        remedy: "Put several ranks on each node into the communicator.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::Level0,
        name: "level0",
        meaning: "NCCL_P2P_PXN_LEVEL=0: send/recv is never relayed.",
        remedy: "Unset it, or set it to 2, to relay send/recv.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::SameRail,
        name: "same_rail",
        meaning: "Every message goes to the peer with the same GPU number, whose NIC is on the \
                  sender's own rail.",
        remedy: "Nothing: no relay could help. An alltoall over all ranks crosses rails.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::Level1,
        name: "level1",
        meaning: "NCCL_P2P_PXN_LEVEL=1 relays send/recv only if the peer's NIC is not reachable \
                  through PCI switches, and here it is.",
        remedy: "Set it to 2 to relay anyway.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::Tree,
        name: "tree",
        meaning: "Only trees were used, and their graph reaches its NICs without a relay.",
        remedy: "Nothing; NCCL_ALGO=Ring shows what a ring does.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::CrossNic,
        name: "cross_nic",
        meaning: "NCCL_CROSS_NIC=1 lets a ring leave through another NIC than the one it came in \
                  through, so it needs no relay.",
        remedy: "Unset it if the network's rails are separate.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::OwnPath,
        name: "own_path",
        meaning: "Each GPU of the graph reaches its NIC well enough on its own path, so NCCL \
                  needs no relay.",
        remedy: "Nothing: PXN would gain nothing for collectives here.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::Collnet,
        name: "collnet",
        meaning: "Collectives went through the network's own reduction (CollNet), not through \
                  rings or trees.",
        remedy: "Unset NCCL_COLLNET_ENABLE to see rings and trees.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::NoGraph,
        name: "no_graph",
        meaning: "No connection is relayed, and the reason is unknown, because the log has no \
                  lines of the GRAPH subsystem.",
        remedy: "Log GRAPH too.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::Unexplained,
        name: "unexplained",
        meaning: "No connection is relayed although everything in the log would allow it. NCCL \
                  also needs a rank of the same communicator on the GPU next to the peer's NIC.",
        remedy: "Check whether the communicator spans all GPUs of each node.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::TooQuiet,
        name: "too_quiet",
        meaning: "The log holds only NCCL's version or warnings.",
        remedy: "Set NCCL_DEBUG=INFO.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::NoInit,
        name: "no_init",
        meaning: "The log lacks the lines about communicators and connections, which belong to \
                  the subsystem INIT.",
        remedy: "Name INIT in NCCL_DEBUG_SUBSYS, or unset it.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::CutEarly,
        name: "cut_early",
        meaning: "The log is cut early: it ends before the first communicator was ready.",
        remedy: "Read the whole log, after an operation has run. If it is whole, the job hung or \
                 was stopped: look at its own output.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::RanksMissing,
        name: "ranks_missing",
        meaning: "The log lacks ranks. Each rank logs only its own connections, so others may be \
                  relayed.",
        remedy: "Read the logs of all ranks together.",
        if_set: &[],
    },
    ReasonInfo {
        reason: Reason::NoConnection,
        name: "no_connection",
        meaning: "The log shows no connection between nodes. NCCL makes one when the first \
                  operation needs it.",
        remedy: "Run an operation, and read the log after it.",
        if_set: &[],
    },
];

impl ReasonInfo {
    /// Returns all remedies, also those for settings.
    pub fn remedies(&self) -> String {
        let mut text = self.remedy.to_owned();
        for more in self.if_set {
            text.push(' ');
            text.push_str(more.remedy);
        }
        text
    }

    /// Returns the remedies for a log with `settings`, by name and value. A setting is named only
    /// if the log has it.
    pub fn remedies_for(&self, settings: &BTreeMap<String, BTreeMap<String, u64>>) -> String {
        let mut text = self.remedy.to_owned();
        for more in self.if_set {
            if more.applies_to(settings) {
                text.push(' ');
                text.push_str(more.remedy);
            }
        }
        text
    }
}

impl SettingRemedy {
    fn applies_to(&self, settings: &BTreeMap<String, BTreeMap<String, u64>>) -> bool {
        self.settings.iter().all(|(name, wanted)| {
            let values = settings.get(*name);
            values.is_some_and(|values| wanted.is_none_or(|value| values.contains_key(value)))
        })
    }
}

impl Reason {
    /// Returns the entry of [`REASONS`].
    pub fn info(self) -> &'static ReasonInfo {
        let entry = REASONS.iter().find(|info| info.reason == self);
        entry.unwrap_or(&REASONS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_an_entry_and_its_name_in_json() {
        for info in REASONS {
            assert_eq!(serde_json::to_value(info.reason).expect("json"), info.name);
            assert!(
                info.meaning.ends_with('.') && info.remedy.ends_with('.'),
                "{}",
                info.name
            );
        }
        assert_eq!(REASONS.len(), Reason::NoConnection as usize + 1);
    }
}
