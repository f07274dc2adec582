//! [`StragglerReport`]: which ranks are late.

use serde::{Deserialize, Serialize};

use crate::{
    collective::{Case, Collective},
    stats::lateness::Late,
    units::Bytes,
};

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
    /// How it is late beyond chance; `None` if it is not.
    pub late: Option<Late>,
}
