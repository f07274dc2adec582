//! The verdict that follows from what a log says: on each communicator, and on the whole.

use super::{
    causes::{find_collective_causes, find_deciding, find_send_recv_causes, is_send_recv_off},
    communicator::Communicator,
    connections::SendCounts,
    facts::LogFacts,
    readiness::Readiness,
    reason::Reason,
    verdict::{PxnVerdict, TrafficVerdict, TrafficVerdicts},
};

/// The verdict on a log, and the reasons for it.
pub(super) struct Conclusion {
    pub(super) verdict: PxnVerdict,
    /// At least one reason, the most likely first.
    pub(super) reasons: Vec<Reason>,
    /// The verdicts on the traffic of all communicators together.
    pub(super) traffic: TrafficVerdicts,
    /// Why send/recv connections are not relayed; none if some are, or if there are no connections.
    pub(super) send_recv_reason: Option<Reason>,
    /// Why connections of collectives are not relayed.
    pub(super) collective_reason: Option<Reason>,
    pub(super) communicators: Vec<CommunicatorConclusion>,
    pub(super) readiness: Readiness,
}

/// The verdict on one communicator.
pub(super) struct CommunicatorConclusion {
    pub(super) communicator: Communicator,
    pub(super) verdict: TrafficVerdict,
    pub(super) traffic: TrafficVerdicts,
    /// The most likely first; empty if the verdict is that the log does not say.
    pub(super) reasons: Vec<Reason>,
    /// Whether the reasons rule PXN out, whatever the connections.
    is_decided: bool,
}

impl CommunicatorConclusion {
    /// Returns whether the communicator cannot need a relay, because it does not leave its node.
    /// That says nothing about others.
    fn is_local(&self) -> bool {
        self.reasons.first() == Some(&Reason::OneNode)
    }

    /// Returns whether the log leaves open whether the communicator uses PXN.
    fn is_open(&self) -> bool {
        self.verdict == TrafficVerdict::NotInLog
    }

    /// Returns whether connections or NCCL's own summary show that nothing is relayed.
    fn shows_none_relayed(&self) -> bool {
        let sends = self.communicator.traffic.total().sends;
        let has_evidence = sends > 0 || self.communicator.rings.with_numbers > 0;
        self.verdict == TrafficVerdict::NotUsed && has_evidence && !self.is_local()
    }
}

/// Judges a log.
pub(super) fn conclude(facts: &LogFacts) -> Conclusion {
    let readiness = Readiness::new(facts);
    let mut communicators = Vec::new();
    for communicator in facts.attribution.communicators() {
        communicators.push(judge_communicator(communicator, facts, &readiness));
    }
    // Those that sent most come first: they are what the log is about.
    communicators.sort_by_key(|of| std::cmp::Reverse(of.communicator.traffic.total().sends));
    let (verdict, mut reasons) = join_communicators(&communicators, facts);
    let is_decided =
        |of: &CommunicatorConclusion| of.is_decided && of.reasons.first() == reasons.first();
    // What rules PXN out does so whatever else went wrong.
    let verdict = if communicators.iter().any(is_decided) {
        verdict
    } else {
        weigh_troubles(facts, readiness, verdict, &mut reasons)
    };
    Conclusion {
        verdict,
        reasons,
        traffic: join_traffic(&communicators),
        send_recv_reason: find_send_recv_reason(&communicators, facts),
        collective_reason: find_collective_reason(&communicators, facts),
        communicators,
        readiness,
    }
}

/// Judges a communicator.
fn judge_communicator(
    communicator: Communicator,
    facts: &LogFacts,
    readiness: &Readiness,
) -> CommunicatorConclusion {
    let local_reason = find_local_reason(&communicator, facts, readiness);
    let deciding = find_deciding(&communicator, facts);
    let mut traffic = match local_reason {
        Some(Reason::Collnet) | None => judge_traffic(&communicator, !deciding.is_empty()),
        Some(_) => TrafficVerdicts::all_alike(TrafficVerdict::NotUsed),
    };
    let verdict = match local_reason {
        Some(_) => TrafficVerdict::NotUsed,
        None => traffic.whole(),
    };
    let reasons = match (verdict, local_reason) {
        (TrafficVerdict::Used, _) => vec![Reason::Relayed],
        (TrafficVerdict::NotInLog, _) => Vec::new(),
        (TrafficVerdict::NotUsed, Some(reason)) => vec![reason],
        (TrafficVerdict::NotUsed, None) => find_reasons(&communicator, facts, &deciding),
    };
    // The level says nothing about collectives, and so nothing about the whole.
    if traffic.send_recv == TrafficVerdict::NotInLog && is_send_recv_off(facts) {
        traffic.send_recv = TrafficVerdict::NotUsed;
    }
    CommunicatorConclusion {
        communicator,
        verdict,
        traffic,
        reasons,
        is_decided: local_reason == Some(Reason::OneNode) || !deciding.is_empty(),
    }
}

/// Finds why a communicator has nothing that could be relayed.
fn find_local_reason(
    communicator: &Communicator,
    facts: &LogFacts,
    readiness: &Readiness,
) -> Option<Reason> {
    let sends = communicator.traffic.total().sends;
    if sends > 0 || communicator.rings.pxn > 0 {
        return None;
    }
    if communicator.has_collnet {
        return Some(Reason::Collnet);
    }
    if communicator.has_network() {
        return None;
    }
    if communicator.nodes == Some(1) {
        return Some(Reason::OneNode);
    }
    if communicator.nvlink_joins_nodes && communicator.has_connections() {
        return Some(Reason::NvlinkJoinsNodes);
    }
    // Before 2.20 the number of nodes is not logged. Virtual nodes share a host.
    let is_on_one_host = communicator.nodes.is_none() && communicator.is_seen_on_one_host();
    let may_be_virtual = facts.settings.has("NCCL_HOSTID");
    let is_one_node = is_on_one_host && !may_be_virtual && !readiness.is_never_ready;
    is_one_node.then_some(Reason::OneNode)
}

/// Judges each kind of traffic. `is_ruled_out`: PXN can be used by none.
fn judge_traffic(communicator: &Communicator, is_ruled_out: bool) -> TrafficVerdicts {
    let counts = &communicator.traffic;
    let otherwise = if is_ruled_out {
        TrafficVerdict::NotUsed
    } else {
        TrafficVerdict::NotInLog
    };
    let unrelayed = if is_partial(communicator) {
        otherwise
    } else {
        TrafficVerdict::NotUsed
    };
    let judge = |sends| judge_sends(sends, unrelayed);
    TrafficVerdicts {
        rings: judge_summary_of_rings(communicator)
            .join(judge(&counts.rings))
            .join(otherwise),
        trees: judge(&counts.trees).join(otherwise),
        rings_or_trees: judge(&counts.rings_or_trees),
        send_recv: judge(&counts.send_recv)
            .join(judge(&counts.unsorted))
            .join(otherwise),
    }
}

/// Returns whether the log is known to lack ranks. Each rank logs only its own connections, so
/// those that are missing may be relayed.
fn is_partial(communicator: &Communicator) -> bool {
    communicator.ranks.is_some() && communicator.lacks_ranks()
}

/// Judges rings by NCCL's own summary, which covers ranks whose connections are not in the log.
fn judge_summary_of_rings(communicator: &Communicator) -> TrafficVerdict {
    match communicator.rings {
        rings if rings.pxn > 0 => TrafficVerdict::Used,
        rings if rings.with_numbers > 0 => TrafficVerdict::NotUsed,
        _ => TrafficVerdict::NotInLog,
    }
}

/// Judges connections. `unrelayed` is what follows if there are some and none is relayed.
fn judge_sends(sends: &SendCounts, unrelayed: TrafficVerdict) -> TrafficVerdict {
    if sends.relayed > 0 {
        TrafficVerdict::Used
    } else if sends.sends > 0 {
        unrelayed
    } else {
        TrafficVerdict::NotInLog
    }
}

/// Finds why nothing of a communicator is relayed: what explains the connections that there are, or
/// what decides without them.
fn find_reasons(communicator: &Communicator, facts: &LogFacts, deciding: &[Reason]) -> Vec<Reason> {
    let counts = &communicator.traffic;
    let mut reasons = Vec::new();
    if counts.unsorted.sends > 0 {
        reasons.push(Reason::NcclTooOld);
    }
    if counts.send_recv.sends > 0 {
        add_new(&mut reasons, &find_send_recv_causes(communicator, facts));
    }
    if counts.collective().sends > 0 || communicator.rings.with_numbers > 0 {
        add_new(&mut reasons, &find_collective_causes(communicator, facts));
    }
    if reasons.is_empty() {
        reasons.extend(deciding);
    }
    if deciding.is_empty() && may_others_relay(communicator) {
        reasons.push(Reason::RanksMissing);
    }
    reasons
}

/// Returns whether ranks that are not in the log may relay, because no summary covers them.
fn may_others_relay(communicator: &Communicator) -> bool {
    let counts = &communicator.traffic;
    let is_covered =
        communicator.rings.with_numbers > 0 && counts.total().sends == counts.rings.sends;
    is_partial(communicator) && !is_covered
}

/// Adds those of `more` that are new.
fn add_new(reasons: &mut Vec<Reason>, more: &[Reason]) {
    for reason in more {
        if !reasons.contains(reason) {
            reasons.push(*reason);
        }
    }
}

/// Joins the verdicts on all communicators, and their reasons.
fn join_communicators(
    communicators: &[CommunicatorConclusion],
    facts: &LogFacts,
) -> (PxnVerdict, Vec<Reason>) {
    let is_used = |of: &CommunicatorConclusion| of.verdict == TrafficVerdict::Used;
    if communicators.iter().any(is_used) {
        return (PxnVerdict::Used, vec![Reason::Relayed]);
    }
    let shown = join_reasons(communicators, CommunicatorConclusion::shows_none_relayed);
    if !shown.is_empty() {
        return (PxnVerdict::NotUsed, shown);
    }
    if communicators.iter().any(CommunicatorConclusion::is_open) {
        return (PxnVerdict::CannotTell, vec![missing(facts, communicators)]);
    }
    let reasons = join_reasons(communicators, |of| !of.is_local());
    if !reasons.is_empty() {
        return (PxnVerdict::NotUsed, reasons);
    }
    // Ray takes a communicator between nodes for a repetition of one inside a node: only their
    // numbers differ.
    if facts.lines.left_out > 0 {
        let reasons = vec![Reason::RanksMissing, Reason::OneNode];
        return (PxnVerdict::CannotTell, reasons);
    }
    (PxnVerdict::NotUsed, vec![Reason::OneNode])
}

/// Joins the reasons of the communicators that `counts`, each reason once.
fn join_reasons(
    communicators: &[CommunicatorConclusion],
    counts: impl Fn(&CommunicatorConclusion) -> bool,
) -> Vec<Reason> {
    let mut joined = Vec::new();
    for conclusion in communicators {
        if counts(conclusion) {
            add_new(&mut joined, &conclusion.reasons);
        }
    }
    joined
}

/// Returns what keeps a log from telling.
fn missing(facts: &LogFacts, communicators: &[CommunicatorConclusion]) -> Reason {
    if facts.info_messages == 0 {
        return Reason::TooQuiet;
    }
    let has_connections = |of: &CommunicatorConclusion| of.communicator.has_connections();
    let mut connected = communicators.iter().filter(|of| has_connections(of));
    if connected.any(|of| of.communicator.lacks_ranks()) {
        return Reason::RanksMissing;
    }
    if communicators.iter().any(has_connections) || facts.participants.ranks().is_some() {
        return Reason::NoConnection;
    }
    if facts.has_init || !facts.network.networks.is_empty() {
        Reason::CutEarly
    } else {
        Reason::NoInit
    }
}

/// Joins the verdicts on the traffic of all communicators. Those that do not leave their node count
/// only if there is no other.
fn join_traffic(communicators: &[CommunicatorConclusion]) -> TrafficVerdicts {
    let are_all_local = communicators.iter().all(CommunicatorConclusion::is_local);
    // While one communicator is open, facts that rule PXN out for another do not count; what
    // connections show does.
    let is_any_open = communicators.iter().any(CommunicatorConclusion::is_open);
    let mut joined = TrafficVerdicts::NOT_IN_LOG;
    for conclusion in communicators {
        let is_shown = conclusion.is_open()
            || conclusion.verdict == TrafficVerdict::Used
            || conclusion.shows_none_relayed();
        let counts = are_all_local || !conclusion.is_local();
        if counts && (is_shown || !is_any_open) {
            joined = joined.join(conclusion.traffic);
        }
    }
    joined
}

/// Finds why send/recv connections are not relayed, from the communicator that has most of them.
fn find_send_recv_reason(
    communicators: &[CommunicatorConclusion],
    facts: &LogFacts,
) -> Option<Reason> {
    let most = find_unrelayed(communicators, |of| of.traffic.send_recv)?;
    find_send_recv_causes(most, facts).first().copied()
}

/// Finds why connections of collectives are not relayed, from the communicator that has most of
/// them.
fn find_collective_reason(
    communicators: &[CommunicatorConclusion],
    facts: &LogFacts,
) -> Option<Reason> {
    let most = find_unrelayed(communicators, |of| of.traffic.collective())?;
    find_collective_causes(most, facts).first().copied()
}

/// Finds the communicator with the most of the connections that `counts` returns; `None` if one of
/// them is relayed, or if there are none.
fn find_unrelayed(
    communicators: &[CommunicatorConclusion],
    counts: impl Fn(&Communicator) -> SendCounts,
) -> Option<&Communicator> {
    let all = || communicators.iter().map(|of| &of.communicator);
    if all().any(|communicator| counts(communicator).relayed > 0) {
        return None;
    }
    let most = all().max_by_key(|communicator| counts(communicator).sends)?;
    (counts(most).sends > 0).then_some(most)
}

/// Places what went wrong in the job among `reasons` by its weight, and returns the verdict in view
/// of it.
fn weigh_troubles(
    facts: &LogFacts,
    readiness: Readiness,
    verdict: PxnVerdict,
    reasons: &mut Vec<Reason>,
) -> PxnVerdict {
    // Connections prove nothing if no process was ever ready to use one.
    if readiness.is_never_ready && readiness.has_trouble {
        reasons.insert(0, Reason::Crash);
    } else if readiness.is_never_ready {
        reasons.insert(0, Reason::CutEarly);
    } else if readiness.unfinished > 0 && readiness.has_fault {
        reasons.push(Reason::Crash);
    }
    if facts.troubles.host_buffers {
        reasons.insert(0, Reason::HostBuffers);
    }
    match reasons[0] {
        Reason::Crash | Reason::CutEarly => PxnVerdict::CannotTell,
        Reason::HostBuffers if verdict != PxnVerdict::Used => PxnVerdict::CannotTell,
        _ => verdict,
    }
}
