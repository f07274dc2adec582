//! The quoted lines that reasons rest on.

use super::{facts::LogFacts, judge::Conclusion, quotes::Topic, reason::Reason};

/// Lines of evidence in a proof.
const LINES: usize = 12;

/// Settings that affect PXN.
const SETTINGS: [&str; 12] = [
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

/// Topics of which the first line is always evidence.
const ALWAYS: [Topic; 4] = [
    Topic::Network,
    Topic::RelayUse,
    Topic::SendRecv,
    Topic::Collective,
];

/// Collects the lines that the reasons of `conclusion` rest on, each line once.
pub(super) fn collect_evidence(facts: &LogFacts, conclusion: &Conclusion) -> Vec<String> {
    let mut evidence = Vec::new();
    add(&mut evidence, find_size(conclusion));
    for reason in &conclusion.reasons {
        for topic in topics(*reason) {
            add(&mut evidence, facts.quotes.lines(*topic));
        }
    }
    for name in SETTINGS {
        add(&mut evidence, facts.settings.lines(name));
    }
    for topic in ALWAYS {
        add(&mut evidence, facts.quotes.first(topic));
    }
    evidence
}

/// Returns the line that tells the size of the communicator that decides, if its size is the
/// reason.
fn find_size(conclusion: &Conclusion) -> Option<&String> {
    let reason = conclusion.reasons[0];
    let is_size = matches!(reason, Reason::NoRelayGpu | Reason::OneNode);
    let mut communicators = conclusion.communicators.iter();
    let decider = communicators.find(|of| of.reasons.first() == Some(&reason))?;
    decider.communicator.size_line.as_ref().filter(|_| is_size)
}

/// Adds lines that are new, as long as there is room.
fn add<'a>(evidence: &mut Vec<String>, lines: impl IntoIterator<Item = &'a String>) {
    for line in lines {
        if evidence.len() < LINES && !evidence.contains(line) {
            evidence.push(line.clone());
        }
    }
}

/// Returns the topics whose lines support `reason`.
fn topics(reason: Reason) -> &'static [Topic] {
    match reason {
        Reason::Relayed => &[Topic::RelayUse, Topic::Rings],
        Reason::HostBuffers => &[Topic::HostBuffers],
        Reason::Crash => &[Topic::SegmentationFault, Topic::Start],
        Reason::OneNode | Reason::NvlinkJoinsNodes => &[Topic::Size, Topic::Local],
        Reason::NcclTooOld => &[Topic::Version, Topic::Collective],
        Reason::PluginTooOld => &[Topic::PluginTooOld],
        Reason::Sockets => &[Topic::Network, Topic::SendRecv, Topic::Collective],
        Reason::NoGpudirect => &[
            Topic::GpuDirect,
            Topic::GpuDirectTooFar,
            Topic::SendRecv,
            Topic::Collective,
        ],
        Reason::NoNvlink | Reason::Unexplained => &[Topic::Paths],
        Reason::NoRelayGpu => &[Topic::Size, Topic::Paths],
        Reason::CutEarly => &[Topic::Start, Topic::Network],
        Reason::RanksMissing => &[Topic::Receive, Topic::Local, Topic::Size],
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
