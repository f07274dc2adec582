//! [`Exposure`]: the communication that computation does not hide.

use serde::Serialize;

use super::result::ReplayResult;
use crate::{
    backend::step::StepMode,
    stats::{Pair, TimeRatio, geometric_mean},
    units::Micros,
};

/// The resolution of the times in us: that of CUDA events (`cudaEventElapsedTime`). Exposed
/// communication below it cannot be told from none.
pub const RESOLUTION: f64 = 0.5;

/// The confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// The communication of a step that its computation does not hide: the time of the overlapped step
/// less that of its computation alone. This includes the time by which communication slows
/// computation down, because both share the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exposure {
    /// The geometric mean of the step over the blocks, less that of the computation.
    pub time_us: Micros,
    /// Its share of the step, from 0 to 1; below 0 if the step is faster than its computation
    /// alone.
    pub share: f64,
    /// The 95 % interval of the share, by Student's t over the blocks; `None` if there are fewer
    /// than two blocks.
    pub share_interval: Option<[f64; 2]>,
}

impl Exposure {
    /// Returns the exposed communication of `result`; `None` if a mode was not measured, or takes
    /// no time.
    pub fn of(result: &ReplayResult) -> Option<Exposure> {
        let steps = result.block_medians(StepMode::Overlapped);
        let computation = result.block_medians(StepMode::Computation);
        let step = geometric_mean(&steps)?;
        let alone = geometric_mean(&computation)?;
        let mut pairs = Vec::new();
        for (&time, &reference) in steps.iter().zip(&computation) {
            pairs.push(Pair { time, reference });
        }
        let ratio = TimeRatio::paired(&pairs, CONFIDENCE, RESOLUTION);
        Some(Exposure {
            time_us: Micros(step - alone),
            share: share_of_ratio(step / alone),
            share_interval: ratio
                .map(|ratio| [share_of_ratio(ratio.low), share_of_ratio(ratio.high)]),
        })
    }
}

/// Returns the exposed share of a step that takes `ratio` times as long as its computation.
fn share_of_ratio(ratio: f64) -> f64 {
    1.0 - 1.0 / ratio
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::result::StepSample;

    fn result(blocks: &[(f64, f64)]) -> ReplayResult {
        let mut result = ReplayResult::default();
        for (block, (computation, overlapped)) in (0..).zip(blocks) {
            for (mode, time) in [
                (StepMode::Computation, computation),
                (StepMode::Overlapped, overlapped),
            ] {
                result.samples.push(StepSample {
                    mode,
                    block,
                    step: 0,
                    time: Micros(*time),
                });
            }
        }
        result
    }

    #[test]
    fn a_step_that_takes_a_quarter_longer_exposes_a_fifth() {
        let measured = result(&[(1000.0, 1250.0), (2000.0, 2500.0), (500.0, 625.0)]);
        let exposure = Exposure::of(&measured);
        let exposure = exposure.expect("both modes");
        assert!((exposure.time_us.0 - 250.0).abs() < 1e-9, "{exposure:?}");
        assert!((exposure.share - 0.2).abs() < 1e-9, "{exposure:?}");
        let [low, high] = exposure.share_interval.expect("three blocks");
        // All blocks agree; what is left is the resolution of the clock.
        assert!(low > 0.198 && high < 0.202, "{low} to {high}");
    }

    #[test]
    fn one_block_has_no_interval_and_none_has_no_exposure() {
        let one = Exposure::of(&result(&[(1000.0, 1250.0)])).expect("both modes");
        assert_eq!(one.share_interval, None);
        assert_eq!(Exposure::of(&result(&[])), None);
        assert_eq!(Exposure::of(&result(&[(0.0, 10.0)])), None);
    }
}
