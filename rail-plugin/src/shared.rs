//! What the connections of a process share.

use crate::{counters::Counters, rail::Rail};

/// What connections share.
pub(crate) struct Shared {
    pub(crate) rails: Vec<Rail>,
    pub(crate) counters: Counters,
    /// This process's rank in the job.
    pub(crate) rank: Option<i32>,
    /// Gets a sentence when a rail begins to stall.
    pub(crate) on_stall: fn(&str),
}

impl Shared {
    /// Names this process.
    pub(crate) fn own_name(&self) -> String {
        let unknown = || "unknown".to_owned();
        self.rank.map_or_else(unknown, |rank| rank.to_string())
    }
}
