//! [`CollectiveKind`]: the collectives of a step that are alike.

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
    /// The collective, and how large it is.
    pub case: Case,
    /// Its communicator, by index.
    pub communicator: usize,
    /// The dimensions in which the ranks of its communicator differ.
    pub group: String,
    /// Its stream.
    pub stream: String,
    /// Its operations, by index.
    pub operations: Vec<usize>,
    /// The median time of one while nothing else runs on its rank.
    pub alone: Option<Micros>,
    /// The median time of one in the step.
    pub in_step: Option<Micros>,
}

impl CollectiveKind {
    /// Returns the kinds of `step` in the order of their first operations, with the times of `result`.
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

    /// Returns the bytes of all its operations together.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.case.size().0 * self.operations.len() as u64)
    }

    /// Returns the busbw of one operation that takes `time`.
    pub fn busbw(&self, time: Option<Micros>) -> Option<GBps> {
        let time = time.filter(|time| time.0 > 0.0)?;
        Some(self.case.bandwidth(time).1)
    }
}

fn median_of(operations: &[usize], times: &[OperationTimes]) -> Option<Micros> {
    let mut medians = Vec::new();
    for &index in operations {
        medians.push(times.get(index)?.median()?.0);
    }
    median(medians).map(Micros)
}
