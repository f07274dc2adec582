//! [`CommunicationParts`]: what of a step's communication is collectives, and what is copies.

use serde::Serialize;

use super::result::{OperationTimes, ReplayResult};
use crate::{
    units::{Bytes, Micros},
    workload::{Step, StepWork},
};

/// The communication of a step: what the library does, and what is copied for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CommunicationParts {
    /// The collectives.
    pub collectives: CommunicationPart,
    /// The copies within the memory of the device.
    pub copies: CommunicationPart,
}

/// The collectives or the copies of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CommunicationPart {
    /// How many there are; of copies, each piece counts.
    pub count: u64,
    /// Their bytes together.
    pub bytes: Bytes,
    /// The sum of the median times of their operations while nothing else runs on their rank;
    /// `None` if one was not measured.
    pub alone_us: Option<Micros>,
    /// The same in the step.
    pub in_step_us: Option<Micros>,
}

impl CommunicationParts {
    /// Returns the parts of `step` with the times of `result`.
    pub fn of(step: &Step, result: &ReplayResult) -> CommunicationParts {
        let volume = step.volume();
        let collectives = volume.all_collectives();
        let part = |count, bytes, is_of: fn(&StepWork) -> bool| CommunicationPart {
            count,
            bytes,
            alone_us: total(step, &result.alone, is_of),
            in_step_us: total(step, &result.in_step, is_of),
        };
        CommunicationParts {
            collectives: part(collectives.calls, collectives.bytes, |work| {
                matches!(work, StepWork::Collective { .. })
            }),
            copies: part(volume.copies.pieces, volume.copies.bytes, |work| {
                matches!(work, StepWork::Copies(_))
            }),
        }
    }
}

/// Returns the sum of the medians of those operations whose work `is_of` accepts.
fn total(step: &Step, times: &[OperationTimes], is_of: fn(&StepWork) -> bool) -> Option<Micros> {
    let mut sum = 0.0;
    for (index, operation) in step.operations.iter().enumerate() {
        if is_of(&operation.work) {
            sum += times.get(index)?.median()?.0;
        }
    }
    Some(Micros(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Workload, WorkloadOptions};

    #[test]
    fn times_of_collectives_and_copies_are_added_apart() {
        let workload = Workload::built_in("ddp-resnet50", &WorkloadOptions::default());
        let step = workload.and_then(|it| it.on(2)).expect("a step");
        let mut result = ReplayResult::default();
        let unmeasured = CommunicationParts::of(&step, &result);
        assert_eq!(
            (unmeasured.copies.count, unmeasured.copies.alone_us),
            (483, None)
        );
        for operation in &step.operations {
            let time = match &operation.work {
                StepWork::Compute(_) => 1e6,
                StepWork::Copies(_) => 10.0,
                StepWork::Collective { .. } => 300.0,
            };
            for (times, factor) in [(&mut result.alone, 1.0), (&mut result.in_step, 2.0)] {
                let mut of_operation = OperationTimes::default();
                of_operation.add_block([Micros(time * factor)].into_iter());
                times.push(of_operation);
            }
        }
        let parts = CommunicationParts::of(&step, &result);
        let found = [parts.collectives, parts.copies].map(|part| {
            let times = [part.alone_us, part.in_step_us].map(|time| time.map(|time| time.0));
            (part.count, part.bytes.0, times)
        });
        // Four buckets and two kinds of buffers: four fills and four copies back, each of large and
        // of small gradients, two joins and two copies.
        let expected = [
            (6, 102_441_032, [Some(1800.0), Some(3600.0)]),
            (483, 204_882_064, [Some(200.0), Some(400.0)]),
        ];
        assert_eq!(found, expected);
    }
}
