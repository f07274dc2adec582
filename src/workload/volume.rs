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
    /// Copies within the memory of its device.
    pub copies: CopiesVolume,
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

/// The copies of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiesVolume {
    /// How many there are.
    pub pieces: u64,
    /// The bytes of all of them.
    pub bytes: Bytes,
}

impl StepVolume {
    /// Returns the collectives of all kinds together.
    pub fn all_collectives(&self) -> CollectiveVolume {
        let mut all = CollectiveVolume::default();
        for of_kind in self.collectives.values() {
            all.calls += of_kind.calls;
            all.bytes.0 = all.bytes.0.saturating_add(of_kind.bytes.0);
        }
        all
    }
}

impl Step {
    /// Returns what each rank moves and computes.
    pub fn volume(&self) -> StepVolume {
        let mut volume = StepVolume::default();
        for operation in &self.operations {
            match &operation.work {
                StepWork::Compute(time) => volume.computation.0 += time.0,
                StepWork::Copies(copies) => {
                    volume.copies.pieces += u64::from(copies.pieces);
                    let bytes = &mut volume.copies.bytes;
                    bytes.0 = bytes.0.saturating_add(copies.bytes.0);
                }
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
