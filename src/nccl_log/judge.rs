//! The verdict that follows from what a log says.

use super::{
    causes::{find_collective_causes, find_send_recv_causes},
    connections::SendCounts,
    facts::LogFacts,
    reason::Reason,
    verdict::{PxnVerdict, TrafficVerdict},
};

/// The verdict on a log, and the reasons for it.
pub(super) struct Conclusion {
    pub(super) verdict: PxnVerdict,
    /// At least one reason, the most likely first.
    pub(super) reasons: Vec<Reason>,
    pub(super) send_recv: TrafficConclusion,
    pub(super) collective: TrafficConclusion,
}

/// The verdict on one kind of traffic.
pub(super) struct TrafficConclusion {
    pub(super) verdict: TrafficVerdict,
    /// Why none of it is relayed, the most likely first; empty unless the verdict is that.
    pub(super) reasons: Vec<Reason>,
}

impl TrafficConclusion {
    /// Judges `sends`; `find_causes` tells why none of them is relayed.
    fn new(sends: &SendCounts, find_causes: impl FnOnce() -> Vec<Reason>) -> TrafficConclusion {
        let verdict = if sends.relayed > 0 {
            TrafficVerdict::Used
        } else if sends.sends > 0 {
            TrafficVerdict::NotUsed
        } else {
            TrafficVerdict::NotInLog
        };
        let reasons = if verdict == TrafficVerdict::NotUsed {
            find_causes()
        } else {
            Vec::new()
        };
        TrafficConclusion { verdict, reasons }
    }
}

/// Judges a log.
pub(super) fn conclude(facts: &LogFacts) -> Conclusion {
    let seen = &facts.connections;
    let unsorted = TrafficConclusion::new(&seen.unsorted, || vec![Reason::NcclTooOld]);
    let send_recv = TrafficConclusion::new(&seen.send_recv, || find_send_recv_causes(facts));
    let collective = TrafficConclusion::new(&seen.collective, || find_collective_causes(facts));
    let on_network = unsorted
        .verdict
        .join(send_recv.verdict)
        .join(collective.verdict);
    let (verdict, mut reasons) = match on_network {
        TrafficVerdict::Used => (PxnVerdict::Used, vec![Reason::Relayed]),
        TrafficVerdict::NotUsed => {
            let reasons = join_reasons(&[&unsorted, &send_recv, &collective]);
            (PxnVerdict::NotUsed, reasons)
        }
        TrafficVerdict::NotInLog => {
            let (verdict, reason) = conclude_without_sends(facts);
            (verdict, vec![reason])
        }
    };
    let verdict = weigh_troubles(facts, verdict, &mut reasons);
    Conclusion {
        verdict,
        reasons,
        send_recv,
        collective,
    }
}

/// Joins the reasons of all kinds of traffic, each reason once.
fn join_reasons(conclusions: &[&TrafficConclusion]) -> Vec<Reason> {
    let mut joined = Vec::new();
    for conclusion in conclusions {
        for reason in &conclusion.reasons {
            if !joined.contains(reason) {
                joined.push(*reason);
            }
        }
    }
    joined
}

/// Judges a log that shows no send over a network.
fn conclude_without_sends(facts: &LogFacts) -> (PxnVerdict, Reason) {
    let participants = &facts.participants;
    let has_connections = !facts.connections.by.is_empty();
    let nodes = participants.nodes();
    if facts.connections.has_collnet() {
        return (PxnVerdict::NotUsed, Reason::Collnet);
    }
    if nodes == Some(1) {
        return (PxnVerdict::NotUsed, Reason::OneNode);
    }
    if has_connections && participants.nvlink_joins_nodes() {
        return (PxnVerdict::NotUsed, Reason::NvlinkJoinsNodes);
    }
    let is_one_host = nodes.is_none() && participants.hosts() <= 1;
    if has_connections && is_one_host && !participants.is_never_ready() {
        return (PxnVerdict::NotUsed, Reason::OneNode);
    }
    if facts.info_messages == 0 {
        return (PxnVerdict::CannotTell, Reason::TooQuiet);
    }
    if nodes.is_none() && !has_connections && participants.processes() == 0 {
        return (PxnVerdict::CannotTell, Reason::NoInit);
    }
    (PxnVerdict::CannotTell, Reason::NoConnection)
}

/// Places what went wrong in the job among `reasons` by its weight, and returns the verdict in view of it.
fn weigh_troubles(facts: &LogFacts, verdict: PxnVerdict, reasons: &mut Vec<Reason>) -> PxnVerdict {
    if reasons[0] == Reason::OneNode {
        return verdict;
    }
    // Connections prove nothing if no process was ever ready to use one.
    let is_never_ready = facts.participants.is_never_ready();
    if is_never_ready {
        reasons.insert(0, Reason::Crash);
    } else if facts.participants.unfinished() > 0 {
        reasons.push(Reason::Crash);
    }
    if facts.troubles.host_buffers {
        reasons.insert(0, Reason::HostBuffers);
    }
    match reasons[0] {
        Reason::Crash => PxnVerdict::CannotTell,
        Reason::HostBuffers if verdict != PxnVerdict::Used => PxnVerdict::CannotTell,
        _ => verdict,
    }
}
