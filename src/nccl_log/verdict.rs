//! Verdicts on PXN.

use serde::Serialize;

/// The verdict on a whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PxnVerdict {
    /// At least one connection goes through the NIC of another GPU.
    Used,
    /// Nothing is relayed, as NCCL's summary or the connections of all ranks show, or nothing can
    /// be.
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

/// The verdict on one kind of traffic, or on one communicator. Absence from a log is no evidence,
/// so it has a value of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficVerdict {
    /// At least one connection is relayed, or NCCL says so.
    Used,
    /// There are connections, none is relayed and no rank is missing; or NCCL says so; or none can
    /// be.
    NotUsed,
    /// The log has no connection of this kind, or lacks ranks whose connections may be relayed, and
    /// nothing else decides.
    NotInLog,
}

impl TrafficVerdict {
    /// Returns the verdict in words.
    pub fn label(self) -> &'static str {
        match self {
            TrafficVerdict::Used => "used",
            TrafficVerdict::NotUsed => "not used",
            TrafficVerdict::NotInLog => "not in log",
        }
    }

    /// Returns the verdict on traffic of several kinds: what one of them shows outweighs what
    /// others lack.
    pub(super) fn join(self, other: TrafficVerdict) -> TrafficVerdict {
        match (self, other) {
            (TrafficVerdict::Used, _) | (_, TrafficVerdict::Used) => TrafficVerdict::Used,
            (TrafficVerdict::NotInLog, verdict) | (verdict, TrafficVerdict::NotInLog) => verdict,
            (TrafficVerdict::NotUsed, TrafficVerdict::NotUsed) => TrafficVerdict::NotUsed,
        }
    }
}

/// The verdicts on each kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TrafficVerdicts {
    /// On rings.
    pub rings: TrafficVerdict,
    /// On trees.
    pub trees: TrafficVerdict,
    /// On connections of collectives of which the log does not say whether they are for rings or
    /// trees.
    pub rings_or_trees: TrafficVerdict,
    /// On send/recv.
    pub send_recv: TrafficVerdict,
}

impl TrafficVerdicts {
    /// The verdicts if the log has nothing on any traffic.
    pub(super) const NOT_IN_LOG: TrafficVerdicts =
        TrafficVerdicts::all_alike(TrafficVerdict::NotInLog);

    /// Returns the same verdict on all traffic.
    pub(super) const fn all_alike(verdict: TrafficVerdict) -> TrafficVerdicts {
        TrafficVerdicts {
            rings: verdict,
            trees: verdict,
            rings_or_trees: TrafficVerdict::NotInLog,
            send_recv: verdict,
        }
    }

    /// Returns the verdicts on the traffic of two communicators.
    pub(super) fn join(self, other: TrafficVerdicts) -> TrafficVerdicts {
        TrafficVerdicts {
            rings: self.rings.join(other.rings),
            trees: self.trees.join(other.trees),
            rings_or_trees: self.rings_or_trees.join(other.rings_or_trees),
            send_recv: self.send_recv.join(other.send_recv),
        }
    }

    /// Returns the verdict on all traffic together.
    pub(super) fn whole(self) -> TrafficVerdict {
        let collective = self.rings.join(self.trees).join(self.rings_or_trees);
        collective.join(self.send_recv)
    }
}
