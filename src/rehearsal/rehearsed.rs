//! [`Rehearsal`]: what all runs of a rehearsal showed.

use serde::{Deserialize, Serialize};

use super::{
    change::change,
    cluster::{Cluster, MOST_RANKS},
    rehearsed_case::RehearsedCase,
    table::NO_TIMES,
};
use crate::{
    exit::{Code, Failure},
    input::why_no_json,
    visible::excerpt,
};

/// The file of the record, in the folder of a rehearsal.
pub const REHEARSAL_JSON: &str = "rehearsal.json";

/// The format of the JSON.
const FORMAT: u32 = 1;

/// The most cases of a record: all collectives, algorithms and levels on a few topologies are some hundred.
const MOST_CASES: usize = 1000;

/// The most rails of a node, as the plugin plays them.
pub const MOST_RAILS: u64 = 64;

/// All that was rehearsed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The format.
    pub format: u32,
    /// What is true of every rehearsal.
    pub about: String,
    /// How it came about, if this program did not run it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The version of this program; empty if it did not run it.
    pub pxnbench: String,
    /// The version of NCCL, as its log has it.
    pub nccl: String,
    /// The model of the GPUs.
    pub device: String,
    /// Nodes.
    pub nodes: u64,
    /// GPUs of each node.
    pub gpus_per_node: u64,
    /// Rails of each node.
    pub rails_per_node: u64,
    /// The size of an operation, as nccl-tests counts it.
    pub size_bytes: u64,
    /// What was played on rails, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub played: Vec<String>,
    /// The cases: by topology, collective, algorithm and level.
    pub cases: Vec<RehearsedCase>,
}

impl Rehearsal {
    /// Returns an empty rehearsal of a cluster.
    pub fn of(cluster: &Cluster, size_bytes: u64) -> Rehearsal {
        Rehearsal {
            format: FORMAT,
            about: NO_TIMES.to_owned(),
            note: String::new(),
            pxnbench: env!("CARGO_PKG_VERSION").to_owned(),
            nccl: String::new(),
            device: String::new(),
            nodes: cluster.nodes,
            gpus_per_node: cluster.gpus() as u64,
            rails_per_node: cluster.rails() as u64,
            size_bytes,
            played: Vec::new(),
            cases: Vec::new(),
        }
    }

    /// Reads a rehearsal that was recorded as JSON.
    ///
    /// # Errors
    /// Returns a sentence if `text` does not hold one.
    pub fn parse(text: &str) -> Result<Rehearsal, String> {
        let rehearsal: Rehearsal = serde_json::from_str(text)
            .map_err(|error| format!("it does not hold a rehearsal: {}", why_no_json(&error)))?;
        if rehearsal.format != FORMAT {
            return Err(format!(
                "its format is {}, and this program reads format {FORMAT}",
                rehearsal.format
            ));
        }
        if !rehearsal.is_within_its_nodes() {
            return Err(format!(
                "it has a node, rank or rail out of range, lacks the bytes of a rail, or has more than {MOST_CASES} cases"
            ));
        }
        Ok(rehearsal)
    }

    fn is_within_its_nodes(&self) -> bool {
        let ranks = self.nodes.saturating_mul(self.gpus_per_node);
        let is_a_cluster = (1..=MOST_RANKS).contains(&ranks)
            && (1..=MOST_RAILS).contains(&self.rails_per_node)
            && self.cases.len() <= MOST_CASES;
        is_a_cluster
            && self
                .cases
                .iter()
                .all(|case| self.has_all_rails(case) && self.has_all_ends(case))
    }

    /// Returns whether a case has the bytes of each rail of each node, in order.
    fn has_all_rails(&self, case: &RehearsedCase) -> bool {
        let mut rails = case.rails.iter();
        for node in 0..self.nodes {
            for number in 0..self.rails_per_node {
                let is_this = rails
                    .next()
                    .is_some_and(|rail| (rail.node, rail.rail as u64) == (node, number));
                if !is_this {
                    return false;
                }
            }
        }
        rails.next().is_none()
    }

    /// Returns whether all ranks and rails of a case's flows are there.
    fn has_all_ends(&self, case: &RehearsedCase) -> bool {
        let ranks = self.nodes * self.gpus_per_node;
        let has_rail = |rail: usize| (rail as u64) < self.rails_per_node;
        case.flows.iter().all(|flow| {
            let mut named = [flow.from, flow.to].into_iter().chain(flow.relay);
            named.all(|rank| rank < ranks) && has_rail(flow.rail) && has_rail(flow.peer_rail)
        })
    }

    /// Adds cases, and says of each what its level changed against the one before it.
    pub fn add(&mut self, cases: impl IntoIterator<Item = RehearsedCase>) {
        for mut case in cases {
            if let Some(before) = self
                .cases
                .last()
                .filter(|before| before.differs_in_level(&case))
            {
                case.changed = change(before, &case);
            }
            self.cases.push(case);
        }
    }

    /// Leaves out the cases for which `is_wanted` is false.
    pub fn retain(&mut self, is_wanted: impl Fn(&RehearsedCase) -> bool) {
        let cases = std::mem::take(&mut self.cases);
        self.add(
            cases
                .into_iter()
                .filter(is_wanted)
                .map(|case| RehearsedCase {
                    changed: String::new(),
                    ..case
                }),
        );
    }

    /// Checks that all data were right and that theory, log and counters agree.
    ///
    /// # Errors
    /// Returns an error with the numbers of the first disagreement, or one if nothing could be compared.
    pub fn check(&self) -> anyhow::Result<()> {
        self.check_data()?;
        let is_compared = |case: &RehearsedCase| case.comparison.agreement().is_some();
        let Some(first) = self.cases.first() else {
            return Ok(());
        };
        if !self.cases.iter().any(is_compared) {
            return first.comparison.check();
        }
        let differs = |case: &&RehearsedCase| case.comparison.agreement() == Some(false);
        let differing: Vec<&RehearsedCase> = self.cases.iter().filter(differs).collect();
        match differing[..] {
            [] => Ok(()),
            [one] => one.comparison.check(),
            [first, ..] => first.comparison.check().map_err(|error| {
                let what = format!(
                    "theory, log and counters disagree in {} of {} rehearsed cases. The first, on topology {}: {error}",
                    differing.len(),
                    self.cases.len(),
                    excerpt(&first.topology)
                );
                Failure::on_all_ranks(Code::WrongData, what)
            }),
        }
    }

    fn check_data(&self) -> anyhow::Result<()> {
        let mut cases = self.cases.iter();
        match cases.find(|case| case.verified == Some(false)) {
            None => Ok(()),
            Some(case) => {
                let what = format!(
                    "wrong data in the rehearsal of {} at level {} on topology {}",
                    case.label(),
                    excerpt(&case.level),
                    excerpt(&case.topology)
                );
                Err(Failure::on_all_ranks(Code::WrongData, what))
            }
        }
    }
}
