//! [`CollectiveKind`]: equal collectives of a step.

use std::collections::HashMap;

use super::{
    quartiles::median,
    result::{OperationTimes, ReplayResult},
};
use crate::{
    collective::Case,
    units::{Bytes, GBps, Micros},
    workload::{Step, StepWork},
};

/// The operations of a step that run the same collective of the same size on the same communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveKind {
    /// The collective with its size and type.
    pub case: Case,
    /// The index of the communicator.
    pub communicator: usize,
    /// The dimensions in which the ranks of the communicator differ.
    pub group: String,
    /// The name of the stream.
    pub stream: String,
    /// The indices of the operations.
    pub operations: Vec<usize>,
    /// The median time of an operation while nothing else runs on its rank; `None` if it was not
    /// measured.
    pub alone: Option<Micros>,
    /// The median time of an operation in the overlapped step; `None` if it was not measured.
    pub in_step: Option<Micros>,
}

impl CollectiveKind {
    /// Returns the kinds of `step` in the order of their first operations, with the times of
    /// `result`.
    pub fn of_step(step: &Step, result: &ReplayResult) -> Vec<CollectiveKind> {
        let mut kinds: Vec<CollectiveKind> = Vec::new();
        let mut places: HashMap<(usize, Case), usize> = HashMap::new();
        for (index, operation) in step.operations.iter().enumerate() {
            let StepWork::Collective { communicator, case } = operation.work else {
                continue;
            };
            let place = *places.entry((communicator, case)).or_insert(kinds.len());
            if place == kinds.len() {
                kinds.push(CollectiveKind {
                    case,
                    communicator,
                    group: step.communicators[communicator].name.clone(),
                    stream: step.streams[operation.stream].clone(),
                    operations: Vec::new(),
                    alone: None,
                    in_step: None,
                });
            }
            kinds[place].operations.push(index);
        }
        for kind in &mut kinds {
            kind.alone = median_of(&kind.operations, &result.alone);
            kind.in_step = median_of(&kind.operations, &result.in_step);
        }
        kinds
    }

    /// Returns the sum of the sizes of its operations.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.case.size().0 * self.operations.len() as u64)
    }

    /// Returns the busbw of an operation that takes `time`.
    pub fn busbw(&self, time: Option<Micros>) -> Option<GBps> {
        let time = time.filter(|time| time.0 > 0.0)?;
        Some(self.case.bandwidth(time).1)
    }
}

/// Returns the median over these operations of their medians over the blocks.
fn median_of(operations: &[usize], times: &[OperationTimes]) -> Option<Micros> {
    let mut medians = Vec::new();
    for &index in operations {
        medians.push(times.get(index)?.median()?.0);
    }
    median(medians).map(Micros)
}
