//! [`Limit`]: a place whose links limit busbw.

use std::fmt;

use crate::topology::figures::Peak;

/// A place in a job where traffic passes one link, or several that work together.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The links of a rank to the other ranks of its node.
    Rank(u32),
    /// The direct NVLinks between two ranks.
    Pair(u32, u32),
    /// The uplink of a PCI switch, with the ranks below it.
    Switch {
        /// Its address.
        bus: String,
        /// The number of its node.
        node: u32,
        /// The ranks below it.
        members: Vec<u32>,
    },
    /// The NICs of a node.
    Node {
        /// Its number.
        node: u32,
        /// Its ranks.
        members: Vec<u32>,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Rank(rank) => write!(f, "rank {rank}"),
            Place::Pair(a, b) => write!(f, "ranks {a} and {b}"),
            Place::Switch { bus, node, .. } => write!(f, "PCI switch {bus} of node {node}"),
            Place::Node { node, .. } => write!(f, "NICs of node {node}"),
        }
    }
}

/// A limit of busbw.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The place of the links.
    pub place: Place,
    /// GB/s in one direction, or why that is unknown.
    pub rate: Result<f64, String>,
    /// The links: `18 x NVLink 4`.
    pub of: String,
}

impl Limit {
    /// Returns the limit of a place whose links are `peak`.
    pub(super) fn new(place: Place, peak: &Peak) -> Limit {
        Limit {
            place,
            rate: peak.gbps.map(|gbps| gbps.0).ok_or_else(|| peak.of.clone()),
            of: peak.of.clone(),
        }
    }

    /// Describes the limit, of whose rate busbw is 1 in `share`.
    pub fn text(&self, share: f64) -> String {
        let Limit { place, of, .. } = self;
        let rate = self.rate.as_ref().copied().unwrap_or_default();
        if share == 1.0 {
            return format!("{place}: {of}, {rate:.1} GB/s in one direction");
        }
        format!(
            "{place}: {of}, {rate:.1} GB/s in one direction; {share:.3} bytes cross it for each \
             byte that busbw counts"
        )
    }
}
