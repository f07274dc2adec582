//! A proof: the report on a log, as a value.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    algorithms::AlgorithmChoice,
    connections::{Connections, SendCounts},
    evidence::collect_evidence,
    facts::{LineCounts, LogFacts},
    graph::Rings,
    groups::{CommunicatorGroup, group_communicators},
    judge::conclude,
    line::Channels,
    quotes::{Quotes, Topic},
    reason::Reason,
    relays::RelayUse,
    verdict::{PxnVerdict, TrafficVerdicts},
};

/// Relays in a proof.
const RELAYS: usize = 4096;

/// GPUDirect RDMA at both ends of network connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuDirect {
    /// Sending ends with it.
    pub sends: u64,
    /// All sending ends.
    pub of_sends: u64,
    /// Receiving ends with it.
    pub receives: u64,
    /// All receiving ends.
    pub of_receives: u64,
}

impl GpuDirect {
    fn new(connections: &Connections) -> GpuDirect {
        let all = connections.network();
        GpuDirect {
            sends: all.gpudirect_sends,
            of_sends: all.sends,
            receives: all.gpudirect_receives,
            of_receives: all.receives,
        }
    }
}

/// What a log proves of PXN, and what the verdict rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// The verdict.
    pub verdict: PxnVerdict,
    /// The most likely reason for it.
    pub reason: Reason,
    /// Other reasons that apply, the most likely first.
    pub also: Vec<Reason>,
    /// The verdicts on each kind of traffic.
    pub traffic: TrafficVerdicts,
    /// The verdicts on each communicator. Those about which the log says the same are one group.
    pub communicator_groups: Vec<CommunicatorGroup>,
    /// Why connections of send/recv are not relayed; none if some are, or if there are no
    /// connections.
    pub send_recv_reason: Option<Reason>,
    /// Why connections of collectives are not relayed.
    pub collective_reason: Option<Reason>,
    /// Network connections of send/recv.
    pub send_recv: SendCounts,
    /// Network connections of collectives.
    pub collective: SendCounts,
    /// Network connections whose line does not say what they are for (before 2.12).
    pub unsorted: SendCounts,
    /// GPUDirect RDMA at both ends.
    pub gpudirect: GpuDirect,
    /// Connections by transport, counted at the end that sends.
    pub transports: BTreeMap<String, u64>,
    /// Ranks that relay, and through which NIC.
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
    /// Ranks of the largest communicator.
    pub ranks: Option<u64>,
    /// Ranks of it that appear in the log. If they are fewer, the counts cover only those.
    pub ranks_in_log: u64,
    /// The number of host names.
    pub hosts: u64,
    /// The number of processes.
    pub processes: u64,
    /// Processes that started to make a communicator, and show no sign of having completed it.
    pub unfinished_processes: u64,
    /// The number of communicators. Each has rank numbers of its own.
    pub communicators: u64,
    /// Channels of the last communicator.
    pub channels: Option<Channels>,
    /// Messages that rings are connected.
    pub rings: Rings,
    /// The number of messages that trees are connected.
    pub trees: u64,
    /// Algorithms and protocols that were chosen, and for which sizes. Rank 0 logs them.
    pub algorithms: Vec<AlgorithmChoice>,
    /// Settings that NCCL read from the environment or a file: how often each value (at most 32 of
    /// them) was read.
    pub settings: BTreeMap<String, BTreeMap<String, u64>>,
    /// The number of NCCL's warnings.
    pub warnings: u64,
    /// Lines from other software that report a segmentation fault.
    pub segmentation_faults: u64,
    /// The first of NCCL's warnings.
    pub first_warning: Option<String>,
    /// The number of lines.
    pub lines: LineCounts,
    /// The lines that the verdict rests on.
    pub evidence: Vec<String>,
    /// Examples of lines that were not understood.
    pub not_understood: Vec<String>,
}

impl Proof {
    /// Returns the reason as a sentence if the log is of one rank, and those of the others are read
    /// elsewhere; empty if the reason is that they are not in this one.
    pub fn reason_of_one_rank(&self) -> &'static str {
        match self.reason {
            Reason::RanksMissing => "",
            reason => reason.info().meaning,
        }
    }

    /// Judges what a log says.
    pub(super) fn new(facts: &LogFacts) -> Proof {
        let conclusion = conclude(facts);
        let connections = &facts.connections;
        let network = &facts.network;
        let participants = &facts.participants;
        let (relays, relays_left_out) = facts.relays.list(RELAYS);
        Proof {
            verdict: conclusion.verdict,
            reason: conclusion.reasons[0],
            also: conclusion.reasons[1..].to_vec(),
            traffic: conclusion.traffic,
            communicator_groups: group_communicators(&conclusion.communicators),
            send_recv_reason: conclusion.send_recv_reason,
            collective_reason: conclusion.collective_reason,
            send_recv: connections.send_recv,
            collective: connections.collective,
            unsorted: connections.unsorted,
            gpudirect: GpuDirect::new(connections),
            transports: connections.by.clone(),
            relays,
            relays_left_out,
            versions: network.versions.iter().cloned().collect(),
            networks: network.networks.iter().cloned().collect(),
            plugins: network.plugins.iter().cloned().collect(),
            nodes: participants.nodes(),
            ranks: participants.ranks(),
            ranks_in_log: participants.ranks_seen() as u64,
            hosts: participants.hosts() as u64,
            processes: conclusion.readiness.processes,
            unfinished_processes: conclusion.readiness.unfinished,
            communicators: participants.communicators(),
            channels: connections.channels,
            rings: facts.rings,
            trees: facts.trees,
            algorithms: facts.choices.as_slice().to_vec(),
            settings: facts.settings.counts(),
            warnings: facts.troubles.warnings,
            segmentation_faults: facts.troubles.segmentation_faults,
            first_warning: facts.quotes.first(Topic::Warning).cloned(),
            lines: facts.lines,
            evidence: collect_evidence(facts, &conclusion),
            not_understood: not_understood(&facts.quotes),
        }
    }
}

fn not_understood(quotes: &Quotes) -> Vec<String> {
    [quotes.lines(Topic::Unclear), quotes.lines(Topic::Torn)].concat()
}
