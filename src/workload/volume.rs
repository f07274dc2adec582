//! [`StepVolume`]: what a step moves and computes.

use std::collections::BTreeMap;

use super::step::{Step, StepWork};
use crate::{
    collective::Collective,
    units::{Bytes, Micros},
};

/// What each rank moves and computes in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepVolume {
    /// The collectives of each kind.
    pub collectives: BTreeMap<Collective, CollectiveVolume>,
    /// Computation.
    pub computation: Micros,
}

/// The collectives of one kind in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectiveVolume {
    /// The number of calls.
    pub calls: u64,
    /// The sum of the sizes as nccl-tests counts them, for an alltoallv those of the busiest rank.
    pub bytes: Bytes,
}

impl Step {
    /// Returns what each rank moves and computes.
    pub fn volume(&self) -> StepVolume {
        let mut volume = StepVolume::default();
        for operation in &self.operations {
            match &operation.work {
                StepWork::Compute(time) => volume.computation.0 += time.0,
                StepWork::Collective { case, .. } => {
                    let of_kind = volume.collectives.entry(case.collective).or_default();
                    of_kind.calls += 1;
                    of_kind.bytes.0 = of_kind.bytes.0.saturating_add(case.size().0);
                }
            }
        }
        volume
    }
}
