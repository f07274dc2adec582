//! [`Timed`]: the timing of a case, and what its numbers are per operation.

use std::time::Duration;

use super::blocks::Reached;
use crate::{
    record::{IterationStats, RankTimes},
    units::Micros,
};

/// The timing of a case.
#[derive(Default)]
pub(super) struct Timed {
    /// Time of one operation, over all ranks; `None` if it was not timed.
    pub(super) time: Option<Micros>,
    /// Time in which process 0 issued one operation to the device.
    pub(super) issue: Option<Micros>,
    /// The same for this process.
    pub(super) my_issue: Option<Micros>,
    /// Time of one operation on this process, in microseconds.
    pub(super) mine: Option<f64>,
    pub(super) operations: u64,
    pub(super) iteration_times: Option<IterationStats>,
    pub(super) rank_times: Option<RankTimes>,
    pub(super) blocks: u32,
    pub(super) precision: Option<Reached>,
    /// Times of the iterations on this process.
    pub(super) my_iteration_times: Vec<Micros>,
    pub(super) computed: bool,
}

/// Returns the time of one operation on each thread in microseconds, if `operations` took the
/// threads `elapsed`.
pub(super) fn per_thread(elapsed: &[Duration], operations: u64) -> Vec<f64> {
    elapsed
        .iter()
        .map(|&elapsed| per_operation(elapsed, operations))
        .collect()
}

/// Returns the time of one operation in microseconds, if `operations` took `elapsed`.
pub(super) fn per_operation(elapsed: Duration, operations: u64) -> f64 {
    Micros::from(elapsed).0 / operations as f64
}

/// Returns the longest time of each iteration.
pub(super) fn longest<'a>(all: impl Iterator<Item = &'a [Micros]>) -> Vec<Micros> {
    let mut longest: Vec<Micros> = Vec::new();
    for times in all {
        if longest.is_empty() {
            longest = times.to_vec();
        }
        for (longest, time) in longest.iter_mut().zip(times) {
            longest.0 = longest.0.max(time.0);
        }
    }
    longest
}
