//! [`Latency`]: how the number of steps of a collective grows with the number of ranks.

use serde::{Deserialize, Serialize};

use crate::collective::Collective;

/// How the number of steps of a collective grows with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// As along a tree; a single step for collectives of sends and receives, which all run at the
    /// same time.
    Tree,
    /// As along a ring: n - 1 steps on n ranks, and for an all_reduce, which goes round twice, 2
    /// (n - 1).
    Ring,
}

impl Latency {
    /// Returns the steps of `collective` on `ranks` ranks.
    pub fn steps(self, collective: Collective, ranks: u64) -> f64 {
        match self {
            Latency::Tree => (collective.spec().steps)(ranks as f64),
            Latency::Ring if collective == Collective::AllReduce => 2.0 * (ranks as f64 - 1.0),
            Latency::Ring => ranks as f64 - 1.0,
        }
    }
}
