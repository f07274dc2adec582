//! [`PeakMeta`]: the most busbw that the links of a run allow, and how it follows from them.

use serde::{Deserialize, Serialize};

use crate::units::GBps;

/// The derivation of the column `peak_GBps`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeakMeta {
    /// The source from which the links were read.
    pub source: String,
    /// Why nothing is known; empty if something is.
    pub why_unknown: String,
    /// What connects each rank with the other ranks of its node.
    pub ranks: Vec<RankRate>,
    /// What connects each node with the others; empty if there is only one.
    pub nodes: Vec<NodeRate>,
    /// The peak of each collective.
    pub collectives: Vec<CollectivePeak>,
}

/// The links of a rank to the other ranks of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankRate {
    /// The rank.
    pub rank: u32,
    /// Their kind: `NVLink 4`.
    pub kind: String,
    /// Their number.
    pub count: u32,
    /// GB/s of each in one direction; absent if unknown.
    #[serde(rename = "each_GBps")]
    pub each: Option<GBps>,
    /// GB/s of all in one direction; absent if unknown.
    #[serde(rename = "all_GBps")]
    pub all: Option<GBps>,
    /// The source of count and rate.
    pub source: String,
}

/// The links of a node to the other nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRate {
    /// The number of the node.
    pub node: u32,
    /// The name of its host.
    pub host: String,
    /// The ports, each with its rate.
    pub ports: Vec<PortUse>,
    /// GB/s of all in one direction, as far as its GPUs can use them; absent if unknown.
    #[serde(rename = "all_GBps")]
    pub all: Option<GBps>,
    /// What sets that, or why it is unknown.
    pub because: String,
}

/// A port of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortUse {
    /// Its name: `mlx5_0:1`.
    pub name: String,
    /// GB/s in one direction; absent if unknown.
    #[serde(rename = "GBps")]
    pub rate: Option<GBps>,
    /// What sets that, or why it is unknown.
    pub because: String,
    /// Its source.
    pub source: String,
}

/// The peak of a collective.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectivePeak {
    /// nccl-tests' name of the collective.
    pub collective: String,
    /// The root for which it holds, if the collective has one.
    pub root: Option<u32>,
    /// busbw in GB/s; absent if unknown.
    #[serde(rename = "peak_GBps")]
    pub busbw: Option<GBps>,
    /// The link that sets it, or why it is unknown.
    pub because: String,
}
