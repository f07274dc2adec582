//! [`Shared`]: what the connections of a process have in common.

use crate::{counters::Counters, rail::Rail};

/// What the connections of a process have in common.
pub(crate) struct Shared {
    pub(crate) rails: Vec<Rail>,
    pub(crate) counters: Counters,
    /// This process's rank in the job.
    pub(crate) rank: Option<i32>,
    /// Takes a sentence when a rail begins to stall.
    pub(crate) on_stall: fn(&str),
}

impl Shared {
    /// Returns the rank of this process for messages.
    pub(crate) fn own_name(&self) -> String {
        let unknown = || "unknown".to_owned();
        self.rank.map_or_else(unknown, |rank| rank.to_string())
    }
}
