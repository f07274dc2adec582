//! [`Rehearsal`]: what all runs of a rehearsal showed.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{
    change::change,
    cluster::{Cluster, MOST_RANKS},
    rehearsed_case::RehearsedCase,
    table::NO_TIMES,
    theory::Share,
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

/// The most cases of a record: all collectives, algorithms and levels on a few topologies are some
/// hundred.
const MOST_CASES: usize = 1000;

/// The most bytes of a text in a record, such as the path of a topology.
const MOST_LETTERS: usize = 4096;

/// The most bytes of a level's or an algorithm's name in a record.
const MOST_LETTERS_OF_NAME: usize = 64;

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
        rehearsal.check_record()?;
        Ok(rehearsal)
    }

    /// Checks what the forms of a record rely on: somebody else may have written it.
    fn check_record(&self) -> Result<(), String> {
        let ranks = self.nodes.saturating_mul(self.gpus_per_node);
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(format!(
                "it has {} nodes of {} GPUs, and there can be 1 to {MOST_RANKS} ranks",
                self.nodes, self.gpus_per_node
            ));
        }
        if !(1..=MOST_RAILS).contains(&self.rails_per_node) {
            return Err(format!(
                "it has {} rails per node, and there can be 1 to {MOST_RAILS}",
                self.rails_per_node
            ));
        }
        if self.cases.len() > MOST_CASES {
            return Err(format!("it has more than {MOST_CASES} cases"));
        }
        let mut texts = [&self.note, &self.pxnbench, &self.nccl, &self.device].into_iter();
        if texts.any(|text| text.len() > MOST_LETTERS)
            || self.played.iter().any(|text| text.len() > MOST_LETTERS)
        {
            return Err(format!("a text in it is longer than {MOST_LETTERS} bytes"));
        }
        let mut known = HashSet::new();
        for (at, case) in self.cases.iter().enumerate() {
            let number = at + 1;
            self.check_case(case)
                .map_err(|why| format!("case {number} {why}"))?;
            let name = (&case.topology, &case.level, case.label());
            if !known.insert(name) {
                return Err(format!("case {number} is there twice"));
            }
        }
        Ok(())
    }

    fn check_case(&self, case: &RehearsedCase) -> Result<(), String> {
        if [&case.level, &case.nccl_algorithm]
            .into_iter()
            .any(|name| name.len() > MOST_LETTERS_OF_NAME)
        {
            return Err(format!(
                "has a name of more than {MOST_LETTERS_OF_NAME} bytes"
            ));
        }
        if [&case.topology, &case.changed]
            .into_iter()
            .any(|text| text.len() > MOST_LETTERS)
        {
            return Err(format!("has a text of more than {MOST_LETTERS} bytes"));
        }
        let is_share = |share: &Share| share.part <= share.whole;
        let relays_what_it_sends = case.rails.iter().all(|rail| rail.relayed <= rail.sent);
        if !is_share(&case.sends) || !is_share(&case.crossing) || !relays_what_it_sends {
            return Err("has a part that is larger than its whole".into());
        }
        if !self.has_all_rails(case) {
            return Err(format!(
                "does not have the bytes of {} rails on each of {} nodes, in order",
                self.rails_per_node, self.nodes
            ));
        }
        if !self.has_all_ends(case) {
            return Err("names a rank or a rail that there is not".into());
        }
        Ok(())
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

    /// Returns the collectives, levels and topologies of its cases.
    pub fn contents(&self) -> String {
        let mut names: [Vec<&str>; 3] = Default::default();
        for case in &self.cases {
            let of_case = [case.collective.name(), &case.level, &case.topology];
            for (known, name) in names.iter_mut().zip(of_case) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        let [collectives, levels, topologies] = names.map(|names| names.join(" "));
        format!("collectives {collectives}, levels {levels}, topologies {topologies}")
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
    /// Returns an error with the numbers of the first disagreement, or one if nothing could be
    /// compared.
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
                    "theory, log and counters disagree in {} of {} rehearsed cases. The first, on \
                     topology {}: {error}",
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
