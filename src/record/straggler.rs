//! [`StragglerReport`]: which ranks are late.

use serde::{Deserialize, Serialize};

use crate::{
    collective::{Case, Collective},
    stats::lateness::Late,
    units::{Bytes, counted},
};

/// Sentences about late ranks.
const MOST_SENTENCES: usize = 20;

/// What the search for stragglers found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StragglerReport {
    /// Cases that were observed.
    pub cases: u32,
    /// Operations that were observed, over all cases.
    pub operations: u64,
    /// Late ranks, each once per way of being late.
    pub stragglers: Vec<Straggler>,
    /// Nodes of which more than half of the ranks are late.
    pub nodes: Vec<LateNode>,
    /// What cannot be told here, and why.
    pub cannot_tell: Vec<String>,
    /// The lateness of every process in every case: the rows of `stragglers.csv`.
    #[serde(skip)]
    pub rows: Vec<LatenessRow>,
}

/// A late rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Straggler {
    /// Its number; the first one if a process has several ranks, which start together.
    pub rank: u32,
    /// Ranks of its process.
    pub ranks: u32,
    /// Its host.
    pub host: String,
    /// Number of its node.
    pub node: u32,
    /// Its device.
    pub device: String,
    /// How it is late.
    pub late: Late,
    /// Number of cases in which it is.
    pub cases: u32,
    /// The collective of the case in which it is latest, relative to the operation.
    pub collective: Collective,
    /// The size of that case.
    pub size: Bytes,
    /// The smallest size at which it is late in this collective.
    pub smallest: Bytes,
    /// The largest one.
    pub largest: Bytes,
    /// Median lateness in the iterations of that case in which it is late, in microseconds.
    pub late_us: f64,
    /// The same in percent of an operation's time.
    pub late_pct: f64,
    /// Iterations of that case in which it is late, in percent.
    pub iterations_pct: f64,
    /// Probability to be late so often by chance, for this rank and case alone.
    pub p_value: f64,
}

/// A node of which more than half of the ranks are late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateNode {
    /// Its number.
    pub node: u32,
    /// Its host.
    pub host: String,
    /// How they are late.
    pub late: Late,
    /// Its late processes.
    pub processes_late: u32,
    /// Its processes.
    pub processes: u32,
}

/// The lateness of a process in a case.
#[derive(Clone, Debug, PartialEq)]
pub struct LatenessRow {
    /// The case.
    pub case: Case,
    /// Number of its first rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Number of its node.
    pub node: u32,
    /// Its device.
    pub device: String,
    /// Observed iterations.
    pub iterations: u32,
    /// Time of an operation in microseconds.
    pub operation_us: f64,
    /// Mean time by which it arrived late, in microseconds.
    pub arrival_us: f64,
    /// Iterations in which it did, in percent.
    pub arrival_pct: f64,
    /// Mean time by which it ended late, in microseconds.
    pub transfer_us: f64,
    /// Iterations in which it did, in percent.
    pub transfer_pct: f64,
    /// How it is late beyond chance: not at all, in one way, or in both.
    pub late: Vec<Late>,
}

impl StragglerReport {
    /// Returns what to say of it: each late node as a whole, each other late rank, and what cannot
    /// be told.
    pub fn sentences(&self) -> Vec<String> {
        let mut found = self.node_sentences();
        for straggler in &self.stragglers {
            let is_on_late_node =
                |node: &LateNode| node.node == straggler.node && node.late == straggler.late;
            if !self.nodes.iter().any(is_on_late_node) {
                found.push(straggler.sentence());
            }
        }
        if found.len() > MOST_SENTENCES {
            let more = found.len() - MOST_SENTENCES;
            found.truncate(MOST_SENTENCES);
            found.push(format!(
                "{} in run.json",
                counted(more as u64, "further straggler")
            ));
        }
        found.extend(self.sentences_without_names());
        found
    }

    /// Returns a sentence per late node.
    pub fn node_sentences(&self) -> Vec<String> {
        self.nodes.iter().map(LateNode::sentence).collect()
    }

    /// Returns how much was observed if nobody is late, and what cannot be told.
    pub fn sentences_without_names(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.stragglers.is_empty() && self.cases > 0 {
            sentences.push(format!(
                "no straggler: in {} of {} nobody is late beyond chance",
                counted(self.operations, "operation"),
                counted(u64::from(self.cases), "case")
            ));
        }
        if !self.cannot_tell.is_empty() {
            let reasons = self.cannot_tell.join("; ");
            sentences.push(format!("who is late cannot be told: {reasons}"));
        }
        sentences
    }
}

impl LateNode {
    fn sentence(&self) -> String {
        let LateNode {
            host,
            processes_late,
            processes,
            ..
        } = self;
        let how = verb(self.late, *processes_late);
        format!(
            "straggler: node {host} as a whole, {processes_late} of its {processes} processes \
             {how}"
        )
    }
}

impl Straggler {
    /// Returns its rank: `3`; `2 to 3` if its process has several.
    pub fn who(&self) -> String {
        match self.ranks {
            0 | 1 => self.rank.to_string(),
            ranks => format!("{} to {}", self.rank, self.rank + ranks - 1),
        }
    }

    /// Returns the sizes at which it is late in its worst collective: `64K`, or `64K to 1M`.
    pub fn sizes(&self) -> String {
        if self.smallest == self.largest {
            self.size.to_string()
        } else {
            format!("{} to {}", self.smallest, self.largest)
        }
    }

    /// Returns who is late, how, where, and by how much.
    pub fn sentence(&self) -> String {
        let Straggler {
            ranks,
            host,
            device,
            collective,
            size,
            late_us,
            late_pct,
            iterations_pct,
            ..
        } = self;
        let who = match ranks {
            1 => format!("rank {} on {host} ({device})", self.who()),
            _ => format!("ranks {} on {host}", self.who()),
        };
        let (how, sizes) = (verb(self.late, *ranks), self.sizes());
        format!(
            "straggler: {who} {how} in {collective} of {sizes}: at {size} by {late_us:.0} us, \
             {late_pct:.0} % of an operation, in {iterations_pct:.0} % of them"
        )
    }
}

/// Returns how one or several are late, as a verb.
fn verb(late: Late, count: u32) -> &'static str {
    match (late, count) {
        (Late::Arrival, 1) => "arrives late",
        (Late::Arrival, _) => "arrive late",
        (Late::Transfer, 1) => "ends late",
        (Late::Transfer, _) => "end late",
    }
}
