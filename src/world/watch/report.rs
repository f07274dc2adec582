//! [`ProgressReport`]: the progress of a process, as its beats carry it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The progress of a process at the moment of a beat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProgressReport {
    pub(super) rank: u32,
    /// How messages name it: rank and host.
    pub(super) name: String,
    pub(super) host: String,
    pub(super) pid: u32,
    /// Its GPUs as messages name them; empty if it uses none.
    pub(super) gpus: String,
    pub(super) position: StepPosition,
    /// All operations of its step; 0 if it has none.
    pub(super) total: u64,
    /// What it does; empty if it waits for nothing.
    pub(super) what: String,
    /// How long it has made no progress, in milliseconds.
    pub(super) stands_ms: u64,
    /// How long it may make none, in milliseconds; `None` if it waits for nothing.
    pub(super) limit_ms: Option<u64>,
}

/// The position of a process in the job. Every rank takes the same steps, so of two ranks the one
/// with the smaller position is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct StepPosition {
    pub(super) step: u64,
    /// The operations of this step that are done.
    pub(super) done: u64,
}

impl ProgressReport {
    /// Returns how long it has been without progress beyond its limit, in milliseconds; negative
    /// before the limit, and `None` if it waits for nothing.
    pub(super) fn overdue_ms(&self) -> Option<i64> {
        let limit = signed(self.limit_ms?);
        Some(signed(self.stands_ms).saturating_sub(limit))
    }

    /// Returns how long it has waited without progress, in milliseconds.
    pub(super) fn waits_ms(&self) -> u64 {
        if self.limit_ms.is_some() {
            self.stands_ms
        } else {
            0
        }
    }

    /// Returns how messages name the process and where it is: `rank 3 on node7 (GPU 2, pid 4711)`.
    pub(super) fn full_name(&self) -> String {
        if self.gpus.is_empty() {
            format!("{} (pid {})", self.name, self.pid)
        } else {
            format!("{} ({}, pid {})", self.name, self.gpus, self.pid)
        }
    }

    /// Returns how messages say what it does:
    /// `20 times all_reduce 1G float sum, 3 of 20 operations done`.
    pub(super) fn doing(&self) -> String {
        let what = if self.what.is_empty() {
            "work of its own"
        } else {
            &self.what
        };
        match self.total {
            0 => what.to_owned(),
            total => format!("{what}, {} of {total} operations done", self.position.done),
        }
    }
}

/// Returns `time` in whole milliseconds.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns what `rank` says that waits in step 7 of 2000 operations with a limit of 3 s.
    pub(in crate::world::watch) fn report(rank: u32, done: u64, stands_ms: u64) -> ProgressReport {
        ProgressReport {
            rank,
            name: format!("rank {rank} on node{}", rank / 8),
            host: format!("node{}", rank / 8),
            pid: 4000 + rank,
            gpus: format!("GPU {}", rank % 8),
            position: StepPosition { step: 7, done },
            total: 2000,
            what: "2000 times all_reduce 1G float sum".into(),
            stands_ms,
            limit_ms: Some(3000),
        }
    }

    #[test]
    fn a_process_that_waits_for_nothing_is_never_overdue() {
        assert_eq!(report(0, 0, 3500).overdue_ms(), Some(500));
        assert_eq!(report(0, 0, 100).overdue_ms(), Some(-2900));
        let idle = ProgressReport {
            limit_ms: None,
            ..report(0, 0, 1 << 40)
        };
        assert_eq!((idle.overdue_ms(), idle.waits_ms()), (None, 0));
    }

    #[test]
    fn a_process_is_named_with_its_gpus_if_it_has_any() {
        let own = report(3, 120, 0);
        assert_eq!(own.full_name(), "rank 3 on node0 (GPU 3, pid 4003)");
        assert_eq!(
            own.doing(),
            "2000 times all_reduce 1G float sum, 120 of 2000 operations done"
        );
        let on_host_memory = ProgressReport {
            gpus: String::new(),
            total: 0,
            what: String::new(),
            ..own
        };
        assert_eq!(on_host_memory.full_name(), "rank 3 on node0 (pid 4003)");
        assert_eq!(on_host_memory.doing(), "work of its own");
    }
}
