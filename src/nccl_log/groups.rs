//! Communicators about which a log says the same, as one group.

use std::collections::HashMap;

use serde::Serialize;

use super::{
    judge::CommunicatorConclusion,
    reason::Reason,
    verdict::{TrafficVerdict, TrafficVerdicts},
};

/// Ids that a group names.
const IDS: usize = 4;

/// Communicators of one shape with the same verdicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommunicatorGroup {
    /// The number of communicators.
    pub communicators: u64,
    /// NCCL's ids of the first four of them (2.14).
    pub ids: Vec<String>,
    /// What is the same in all of them.
    #[serde(flatten)]
    pub shared: CommunicatorVerdict,
}

/// The shape of a communicator, and the verdicts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CommunicatorVerdict {
    /// The number of ranks; unknown if no line tells to which communicator connections belong.
    pub ranks: Option<u64>,
    /// Ranks that appear in the log.
    pub ranks_in_log: u64,
    /// The number of nodes (2.20).
    pub nodes: Option<u64>,
    /// The most ranks that a node has (2.20).
    pub local_ranks: Option<u64>,
    /// The verdict on all traffic.
    pub verdict: TrafficVerdict,
    /// The verdicts on each kind of traffic.
    #[serde(flatten)]
    pub traffic: TrafficVerdicts,
    /// The most likely reason; none if the log does not say.
    pub reason: Option<Reason>,
}

/// Groups `communicators`, in the order in which the groups first appear.
pub(super) fn group_communicators(
    communicators: &[CommunicatorConclusion],
) -> Vec<CommunicatorGroup> {
    let mut groups = Vec::<CommunicatorGroup>::new();
    let mut numbers = HashMap::new();
    for conclusion in communicators {
        let shared = shared_verdict(conclusion);
        let number = *numbers.entry(shared).or_insert(groups.len());
        if number == groups.len() {
            groups.push(CommunicatorGroup {
                communicators: 0,
                ids: Vec::new(),
                shared,
            });
        }
        let group = &mut groups[number];
        group.communicators += 1;
        if let Some(id) = conclusion.communicator.id
            && group.ids.len() < IDS
        {
            group.ids.push(format!("0x{id:x}"));
        }
    }
    groups
}

fn shared_verdict(conclusion: &CommunicatorConclusion) -> CommunicatorVerdict {
    let communicator = &conclusion.communicator;
    CommunicatorVerdict {
        ranks: communicator.ranks,
        ranks_in_log: communicator.ranks_seen(),
        nodes: communicator.nodes,
        local_ranks: communicator.local_ranks,
        verdict: conclusion.verdict,
        traffic: conclusion.traffic,
        reason: conclusion.reasons.first().copied(),
    }
}
