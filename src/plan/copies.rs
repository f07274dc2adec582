//! [`PlannedCopies`]: what the copies of a step would take. They are not measured, so their costs
//! are assumed.

use serde::Serialize;

use crate::{
    units::{Bytes, Micros, counted},
    workload::{MEMORY_RATE, MemoryCopies, Step, StepWork},
};

/// What each copy takes besides its bytes: a kernel of a GPU, and the gap before it.
const EACH: Micros = Micros(2.5);

/// The copies of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlannedCopies {
    /// How many there are.
    pub pieces: u64,
    /// Their bytes together.
    pub bytes: Bytes,
    /// The sum of their times.
    pub time_us: Micros,
}

impl PlannedCopies {
    /// Returns the copies of `step`; `None` if it has none.
    pub(super) fn of(step: &Step) -> Option<PlannedCopies> {
        let volume = step.volume().copies;
        let mut time = Micros(0.0);
        for operation in &step.operations {
            if let StepWork::Copies(copies) = &operation.work {
                time.0 += assumed_time(copies).0;
            }
        }
        (volume.pieces > 0).then_some(PlannedCopies {
            pieces: volume.pieces,
            bytes: volume.bytes,
            time_us: time,
        })
    }

    /// Returns what is assumed.
    pub(super) fn remark(&self) -> String {
        format!(
            "The time of {} is assumed, not measured: {} us each, and all bytes read and written \
             at {} TB/s.",
            counted(self.pieces, "copy"),
            EACH.0,
            MEMORY_RATE / 1e12
        )
    }
}

/// Returns the time in which a GPU reads and writes all bytes, and starts each copy.
pub(super) fn assumed_time(copies: &MemoryCopies) -> Micros {
    let moved = 2.0 * copies.bytes.0 as f64 / MEMORY_RATE * 1e6;
    Micros(f64::from(copies.pieces) * EACH.0 + moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Workload, WorkloadOptions};

    #[test]
    fn each_copy_has_a_cost_and_each_byte_is_read_and_written() {
        let workload = Workload::built_in("ddp-resnet50", &WorkloadOptions::default());
        let step = workload.and_then(|it| it.on(8)).expect("a step");
        let copies = PlannedCopies::of(&step).expect("copies");
        assert_eq!((copies.pieces, copies.bytes), (483, Bytes(204_882_064)));
        let expected = 483.0 * 2.5 + 2.0 * 204.882_064 / 4.0;
        assert!((copies.time_us.0 - expected).abs() < 1e-6, "{copies:?}");
        assert_eq!(
            copies.remark(),
            "The time of 483 copies is assumed, not measured: 2.5 us each, and all bytes read and \
             written at 4 TB/s."
        );
        let without = Workload::built_in("fsdp-7b", &WorkloadOptions::default());
        let step = without.and_then(|it| it.on(8)).expect("a step");
        assert_eq!(PlannedCopies::of(&step), None);
    }
}
