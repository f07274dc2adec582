//! [`RehearsedCase`]: what a run of NCCL on virtual nodes showed of one operation, beside what its
//! rules say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    cluster::Cluster,
    comparison::{Comparison, Shown},
    counters::RunCounters,
    flow::Flow,
    theory::{Algorithm, Answer, RailBytes, Relays, Share, Theory},
};
use crate::{
    collective::Collective,
    nccl_log::{AlgorithmChoice, SendCounts},
};

/// What a run of one operation showed, which it repeated.
#[derive(Debug)]
pub struct ShownRun<'a> {
    /// The network connections in NCCL's log, for this kind of traffic.
    pub log: SendCounts,
    /// The counters of its rails.
    pub counters: &'a RunCounters,
    /// How often the operation ran.
    pub operations: u64,
    /// The algorithm by NCCL's log; empty if it names none.
    pub nccl_algorithm: String,
    /// Whether all data were right; `None` if they were not checked.
    pub is_verified: Option<bool>,
}

/// Returns the algorithms and protocols that NCCL's log names, each once; nothing if it names none,
/// as for sends and receives.
pub fn algorithm_names(choices: &[AlgorithmChoice]) -> String {
    let mut names: Vec<String> = Vec::new();
    for choice in choices {
        let name = format!("{} {}", choice.algorithm, choice.protocol);
        let name = name.trim().to_lowercase();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" + ")
}

/// A collective that was rehearsed at one level on one topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RehearsedCase {
    /// The topology of the nodes.
    pub topology: String,
    /// The level.
    pub level: String,
    /// The collective.
    pub collective: Collective,
    /// The way in which NCCL was told to run it.
    pub algorithm: Algorithm,
    /// The algorithm by NCCL's log; empty if it names none.
    pub nccl_algorithm: String,
    /// How often the operation ran.
    pub operations: u64,
    /// The relayed send connections, of all send connections, by NCCL's log.
    pub sends: Share,
    /// The bytes of all operations by node and rail, by the counters.
    pub rails: Vec<RailBytes>,
    /// The bytes that were received on another rail than they were sent on, of all bytes.
    pub crossing: Share,
    /// Who sent to whom over which rail, in all operations.
    pub flows: Vec<Flow>,
    /// How long messages waited for each rail on which something was played, in microseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waited_us: BTreeMap<u64, u64>,
    /// Whether all data were right; `None` if they were not checked.
    pub verified: Option<bool>,
    /// Theory, log and counters side by side.
    pub comparison: Comparison,
    /// What the level changed against the one before; empty for the first one.
    #[serde(default)]
    pub changed: String,
}

impl RehearsedCase {
    /// Puts together what a run of a cluster showed.
    ///
    /// # Errors
    /// Returns a sentence if the counters do not tell what was relayed.
    pub fn new(
        cluster: &Cluster,
        theory: &Theory,
        run: ShownRun<'_>,
    ) -> Result<RehearsedCase, String> {
        let shown = Shown {
            log: Some(run.log),
            counters: Some(run.counters),
            operations: run.operations,
        };
        Ok(RehearsedCase {
            topology: cluster.topology_name().to_owned(),
            level: theory.level.clone(),
            collective: theory.collective,
            algorithm: theory.algorithm,
            nccl_algorithm: run.nccl_algorithm,
            operations: run.operations,
            sends: Share {
                part: run.log.relayed,
                whole: run.log.sends,
            },
            rails: run.counters.rail_bytes(cluster)?,
            crossing: run.counters.crossing(),
            flows: run.counters.flows(),
            waited_us: run.counters.waited(),
            verified: run.is_verified,
            comparison: Comparison::new(cluster, theory, &shown)?,
            changed: String::new(),
        })
    }

    /// Returns the collective and its algorithm.
    pub fn label(&self) -> String {
        self.algorithm.label(self.collective)
    }

    /// Returns whether no data were wrong and no sources differ.
    pub fn is_as_expected(&self) -> bool {
        self.verified != Some(false) && self.comparison.agreement() != Some(false)
    }

    /// Returns the algorithm as NCCL's log has it, or else as NCCL was told.
    pub fn algorithm_name(&self) -> &str {
        match self.nccl_algorithm.as_str() {
            "" => self.algorithm.word(),
            name => name,
        }
    }

    /// Returns the bytes of one operation by node and rail.
    pub fn rails_of_one_operation(&self) -> Vec<RailBytes> {
        let operations = self.operations.max(1);
        let of_one = |rail: &RailBytes| RailBytes {
            sent: rail.sent / operations,
            relayed: rail.relayed / operations,
            ..*rail
        };
        self.rails.iter().map(of_one).collect()
    }

    /// Returns the case in the form in which theories are drawn.
    pub(super) fn drawn(&self) -> Theory {
        Theory {
            level: format!("{}, {}", self.topology, self.level),
            collective: self.collective,
            algorithm: self.algorithm,
            size_bytes: 0,
            relays: Relays::Connections(self.sends),
            rails: Answer::Known(self.rails_of_one_operation()),
            crossing: Answer::Known(self.crossing),
            flows: self.flows.clone(),
        }
    }

    /// Returns whether only the level differs.
    pub(super) fn differs_in_level(&self, other: &RehearsedCase) -> bool {
        self.topology == other.topology
            && self.collective == other.collective
            && self.algorithm == other.algorithm
    }
}
