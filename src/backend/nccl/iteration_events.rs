//! Events around iterations, by which the GPU's clock times each of them.

use cudarc::driver::CudaEvent;

use super::{device::Device, rank_device::RankDevice};
use crate::units::Micros;

/// The events around iterations, on each GPU of a thread.
#[derive(Default)]
pub(super) struct IterationEvents {
    /// The events of each GPU; empty if iterations are not timed.
    by_gpu: Vec<Vec<CudaEvent>>,
    /// Whether each iteration has an event at its end; otherwise it ends where the next one begins.
    has_ends: bool,
}

impl IterationEvents {
    /// Creates events for `iters` iterations on each GPU.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn new(
        ranks: &[RankDevice],
        iters: u32,
        has_ends: bool,
    ) -> anyhow::Result<IterationEvents> {
        let count = if has_ends { 2 * iters } else { iters + 1 };
        let mut by_gpu = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let events = (0..count).map(|_| rank.device.event());
            by_gpu.push(events.collect::<anyhow::Result<Vec<_>>>()?);
        }
        Ok(IterationEvents { by_gpu, has_ends })
    }

    /// Returns the distance between the first events of two consecutive iterations.
    fn stride(&self) -> usize {
        if self.has_ends { 2 } else { 1 }
    }

    /// Records the beginning of an iteration.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    #[inline]
    pub(super) fn record_begin(&self, ranks: &[RankDevice], iteration: u32) -> anyhow::Result<()> {
        self.record(ranks, iteration as usize * self.stride())
    }

    /// Records the end of an iteration, if iterations have ends of their own.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn record_end(&self, ranks: &[RankDevice], iteration: u32) -> anyhow::Result<()> {
        self.record(ranks, iteration as usize * self.stride() + 1)
    }

    #[inline]
    fn record(&self, ranks: &[RankDevice], index: usize) -> anyhow::Result<()> {
        for (events, rank) in self.by_gpu.iter().zip(ranks) {
            rank.device.record(&events[index])?;
        }
        Ok(())
    }

    /// Returns the time of each iteration on the GPU that took longest, divided by its operations.
    /// All events have passed.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn iteration_times(&self, operations: u32) -> anyhow::Result<Vec<Micros>> {
        let Some(events) = self.by_gpu.first().map(Vec::len) else {
            return Ok(Vec::new());
        };
        let mut times = Vec::new();
        for begin in (0..events - 1).step_by(self.stride()) {
            let mut longest = 0.0_f64;
            for events in &self.by_gpu {
                let time = Device::time_between(&events[begin], &events[begin + 1])?;
                longest = longest.max(time.0);
            }
            times.push(Micros(longest / f64::from(operations)));
        }
        Ok(times)
    }
}
