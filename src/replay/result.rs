//! [`ReplayResult`]: the times that a replay has measured.

use super::{
    quartiles::{Quartiles, median},
    timeline::RankTimeline,
};
use crate::{backend::step::StepMode, units::Micros};

/// The times that a replay has measured on all ranks, and the result of the check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayResult {
    /// Every timed step.
    pub samples: Vec<StepSample>,
    /// The times of each operation while nothing else runs on its rank.
    pub alone: Vec<OperationTimes>,
    /// The times of each operation in the overlapped step.
    pub in_step: Vec<OperationTimes>,
    /// When the operations of the last overlapped step ran, for each of the first ranks.
    pub timelines: Vec<RankTimeline>,
    /// The number of collectives whose results were checked.
    pub checked: u32,
    /// The number of wrong elements in all of them.
    pub wrong: u64,
    /// The names of the operations with wrong elements.
    pub wrong_operations: Vec<String>,
    /// Whether a signal ended the replay.
    pub is_stopped: bool,
}

/// The time of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSample {
    /// The mode in which it ran.
    pub mode: StepMode,
    /// The number of its block, from 0.
    pub block: u32,
    /// Its number in the block, from 0.
    pub step: u32,
    /// Its time on the slowest rank.
    pub time: Micros,
}

/// The times of an operation: for each block, the mean over the ranks of the medians over the
/// steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationTimes(Vec<Micros>);

impl OperationTimes {
    /// Adds a block, from the median of each rank that ran the operation.
    pub(super) fn add_block(&mut self, ranks: impl Iterator<Item = Micros>) {
        let (mut sum, mut count) = (0.0, 0_u32);
        for time in ranks {
            sum += time.0;
            count += 1;
        }
        if count > 0 {
            self.0.push(Micros(sum / f64::from(count)));
        }
    }

    /// Returns the median over the blocks; `None` if there is none.
    pub fn median(&self) -> Option<Micros> {
        median(self.0.iter().map(|time| time.0).collect()).map(Micros)
    }
}

impl ReplayResult {
    /// Returns the quartiles of the steps in `mode`; `None` if none was measured.
    pub fn times(&self, mode: StepMode) -> Option<Quartiles> {
        let samples = self.samples.iter().filter(|sample| sample.mode == mode);
        Quartiles::new(samples.map(|sample| sample.time))
    }

    /// Returns the median of the steps in `mode` in each block.
    pub(super) fn block_medians(&self, mode: StepMode) -> Vec<f64> {
        let blocks = self.samples.iter().map(|sample| sample.block + 1).max();
        let mut medians = Vec::new();
        for block in 0..blocks.unwrap_or(0) {
            let samples = self
                .samples
                .iter()
                .filter(|sample| sample.mode == mode && sample.block == block);
            medians.extend(median(samples.map(|sample| sample.time.0).collect()));
        }
        medians
    }
}
