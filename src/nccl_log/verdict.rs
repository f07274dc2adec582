//! Verdicts on PXN.

use serde::Serialize;

/// The verdict on a whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PxnVerdict {
    /// At least one connection goes through the NIC of another GPU.
    Used,
    /// There are connections, or there can be none, and none of them is relayed.
    NotUsed,
    /// The log does not say, or ends before any process was ready.
    CannotTell,
}

impl PxnVerdict {
    /// Returns the verdict in words.
    pub fn label(self) -> &'static str {
        match self {
            PxnVerdict::Used => "used",
            PxnVerdict::NotUsed => "not used",
            PxnVerdict::CannotTell => "cannot tell",
        }
    }
}

/// The verdict on one kind of traffic. Absence from a log is no evidence, so it has a value of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrafficVerdict {
    /// At least one connection is relayed.
    Used,
    /// There are connections, and none is relayed.
    NotUsed,
    /// The log has no connection of this kind.
    NotInLog,
}

impl TrafficVerdict {
    /// Returns the verdict on traffic of several kinds: what one of them shows outweighs what others lack.
    pub(super) fn join(self, other: TrafficVerdict) -> TrafficVerdict {
        match (self, other) {
            (TrafficVerdict::Used, _) | (_, TrafficVerdict::Used) => TrafficVerdict::Used,
            (TrafficVerdict::NotInLog, verdict) | (verdict, TrafficVerdict::NotInLog) => verdict,
            (TrafficVerdict::NotUsed, TrafficVerdict::NotUsed) => TrafficVerdict::NotUsed,
        }
    }
}
