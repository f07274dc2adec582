//! Marks in a stream of operations, by which the polling of the stream sees how many have ended.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use cudarc::driver::CudaEvent;

use super::rank_device::RankDevice;
use crate::world::progress;

/// The time between two looks at the marks while the stream is polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The marks of a block of operations, in the stream of one GPU.
pub(super) struct ProgressMarks<'a> {
    /// Whether what this thread does counts as the progress of the process.
    is_counted: bool,
    /// The rank in whose stream they are; `None` if there are none.
    rank: Option<&'a RankDevice>,
    /// Steps per mark.
    distance: u32,
    events: Vec<CudaEvent>,
    recorded: Cell<usize>,
    passed: Cell<usize>,
    looked_at: Cell<Instant>,
}

impl<'a> ProgressMarks<'a> {
    /// Creates the marks of `steps` steps of `operations` operations each on the first of `ranks`,
    /// and begins to count the steps; `None` counts nothing.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn new(
        ranks: Option<&'a [RankDevice]>,
        steps: u32,
        operations: u32,
    ) -> anyhow::Result<ProgressMarks<'a>> {
        let mut marks = ProgressMarks {
            is_counted: ranks.is_some(),
            rank: None,
            distance: u32::MAX,
            events: Vec::new(),
            recorded: Cell::new(0),
            passed: Cell::new(0),
            looked_at: Cell::new(Instant::now()),
        };
        let Some(ranks) = ranks else {
            return Ok(marks);
        };
        progress::begin(steps.into());
        let distance = progress::steps_per_mark(steps, operations);
        if let (Some(first), Some(distance)) = (ranks.first(), distance) {
            marks.rank = Some(first);
            marks.distance = distance;
            for _ in 0..steps / distance {
                marks.events.push(first.device.mark()?);
            }
        }
        Ok(marks)
    }

    /// Notes that `count` steps were handed to the GPU, and records a mark if one is due after
    /// them.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    #[inline]
    pub(super) fn after(&self, count: u32) -> anyhow::Result<()> {
        if self.is_counted {
            progress::issued(count.into());
        }
        if count.is_multiple_of(self.distance) {
            self.record()?;
        }
        Ok(())
    }

    #[cold]
    fn record(&self) -> anyhow::Result<()> {
        let index = self.recorded.get();
        if let (Some(rank), Some(event)) = (self.rank, self.events.get(index)) {
            rank.device.record(event)?;
            self.recorded.set(index + 1);
            self.count();
        }
        Ok(())
    }

    /// Notes that all `count` steps have ended.
    pub(super) fn end(&self, count: u32) {
        if self.is_counted {
            progress::done(count.into());
        }
    }

    /// Counts the marks that have passed, now and then.
    pub(super) fn look(&self) {
        if self.rank.is_some() && self.looked_at.get().elapsed() >= LOOK_EVERY {
            self.looked_at.set(Instant::now());
            self.count();
        }
    }

    fn count(&self) {
        let recorded = &self.events[..self.recorded.get()];
        // What has failed is never complete; the polling of the stream says so.
        while let Some(event) = recorded.get(self.passed.get())
            && event.is_complete()
        {
            self.passed.set(self.passed.get() + 1);
            progress::done(self.passed.get() as u64 * u64::from(self.distance));
        }
    }
}
