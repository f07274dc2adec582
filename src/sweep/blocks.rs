//! `Blocks`: the timed operations of a case, in one block or, with `--precision`, in as many as
//! that takes.

use std::{
    fmt,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    backend::Timing,
    stats::BatchMean,
    units::Micros,
    world::{self, World},
};

/// The confidence of the interval that a precision is about.
const CONFIDENCE: f64 = 0.95;

/// Blocks that a case has at least: fewer do not tell how times are spread.
pub const LEAST_BLOCKS: usize = 10;

/// Blocks that a case has at most.
pub const MOST_BLOCKS: usize = 10_000;

/// The time that the blocks of a case take at least, unless [`MOST_BLOCKS`] take less: what lasts
/// for a moment only should not pass for the mean.
pub const LEAST_TIME: Duration = Duration::from_millis(100);

/// The time after which no further block of a case begins.
pub const MOST_TIME: Duration = Duration::from_secs(60);

/// Times of iterations that are kept over all ranks, at most: 80 MB.
const MOST_ITERATIONS: usize = 10_000_000;

/// After an interval that is too wide, the number of blocks grows by this factor before the next
/// look. Each look is a chance to end too early.
const GROWTH: f64 = 1.25;

/// The reason for which a case ended before it had the requested precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Limit {
    /// [`MOST_TIME`].
    Time,
    /// [`MOST_BLOCKS`].
    Blocks,
    /// [`MOST_ITERATIONS`].
    Iterations,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Time => write!(f, "within {} s", MOST_TIME.as_secs()),
            Limit::Blocks => write!(f, "within {MOST_BLOCKS} blocks"),
            Limit::Iterations => write!(f, "with as many times of iterations as -I keeps"),
        }
    }
}

/// The precision that a case has reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reached {
    /// Half of the interval, relative to the mean; `None` if it cannot be told.
    pub(super) relative: Option<f64>,
    /// What ended the case before it had the requested precision; `None` if it has.
    pub(super) limit: Option<Limit>,
}

/// The blocks of a case so far.
#[derive(Default)]
pub(super) struct Blocks {
    /// The time of each thread of this process.
    pub(super) elapsed: Vec<Duration>,
    /// The time in which operations were issued.
    pub(super) issued: Duration,
    /// Operations.
    pub(super) operations: u64,
    /// Times of the iterations of each process; empty if they were not timed.
    pub(super) iterations: Vec<Vec<Micros>>,
    /// Whether the times were computed.
    pub(super) computed: bool,
    /// The time of one operation in each block, over all ranks.
    pub(super) times: Vec<f64>,
    next_look: usize,
}

impl Blocks {
    /// Adds a block: what this process measured, the time of one operation over all ranks, and the
    /// times of the iterations of each process.
    pub(super) fn add(&mut self, timing: &Timing, time: f64, iterations: Vec<Vec<Micros>>) {
        self.elapsed.resize(timing.elapsed.len(), Duration::ZERO);
        for (sum, elapsed) in self.elapsed.iter_mut().zip(&timing.elapsed) {
            *sum += *elapsed;
        }
        self.issued += timing.issued;
        self.operations += timing.operations;
        self.computed = timing.computed;
        self.times.push(time);
        self.iterations.resize(iterations.len(), Vec::new());
        for (all, more) in self.iterations.iter_mut().zip(iterations) {
            all.extend(more);
        }
    }

    /// Returns the time of one operation.
    pub(super) fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len() as f64
    }

    /// Returns the precision of the case if it is as `wanted`, or if there cannot be more; `None`
    /// if another block is needed. The first block began at `began`. Process 0 decides for all.
    ///
    /// # Errors
    /// Returns an error if the decision does not reach the other processes; that would be a bug.
    pub(super) fn end(
        &mut self,
        wanted: f64,
        began: Instant,
        world: &dyn World,
    ) -> anyhow::Result<Option<Reached>> {
        let own = self.reached(wanted, began.elapsed());
        world::broadcast(world, &own)
    }

    /// Returns what process 0 decides if the blocks took `elapsed`.
    fn reached(&mut self, wanted: f64, elapsed: Duration) -> Option<Reached> {
        if self.computed {
            return Some(Reached {
                relative: None,
                limit: None,
            });
        }
        let blocks = self.times.len();
        let limit = self.limit(elapsed);
        let may_end = blocks >= LEAST_BLOCKS && elapsed >= LEAST_TIME;
        let is_look = may_end && blocks >= self.next_look;
        if limit.is_none() && !is_look {
            return None;
        }
        self.next_look = (blocks as f64 * GROWTH).ceil() as usize;
        let relative = BatchMean::new(&self.times, CONFIDENCE).map(|mean| mean.relative());
        let is_narrow = relative.is_some_and(|relative| relative <= wanted);
        let has_enough = blocks >= LEAST_BLOCKS && is_narrow;
        if has_enough || limit.is_some() {
            return Some(Reached {
                relative,
                limit: limit.filter(|_| !has_enough),
            });
        }
        None
    }

    /// Returns what forbids another block.
    fn limit(&self, elapsed: Duration) -> Option<Limit> {
        let iterations: usize = self.iterations.iter().map(Vec::len).sum();
        if elapsed >= MOST_TIME {
            Some(Limit::Time)
        } else if self.times.len() >= MOST_BLOCKS {
            Some(Limit::Blocks)
        } else if iterations >= MOST_ITERATIONS {
            Some(Limit::Iterations)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs blocks whose times are up to `percent` above and below 100, each of which takes
    /// `block`; returns their number and what was reached.
    fn waves(percent: f64, wanted: f64, block: Duration) -> (usize, Reached) {
        let mut blocks = Blocks::default();
        loop {
            let wave = (blocks.times.len() as f64).sin();
            let timing = Timing::new(block, 20);
            blocks.add(&timing, 100.0 + wave * percent, Vec::new());
            let elapsed = block * blocks.times.len() as u32;
            if let Some(reached) = blocks.reached(wanted, elapsed) {
                return (blocks.times.len(), reached);
            }
        }
    }

    #[test]
    fn a_case_ends_when_its_interval_is_narrow() {
        let block = Duration::from_millis(20);
        let (blocks, reached) = waves(0.1, 0.01, block);
        assert_eq!((blocks, reached.limit), (LEAST_BLOCKS, None));
        assert!(reached.relative < Some(0.01));
        let (blocks, reached) = waves(5.0, 0.01, block);
        assert!(blocks > LEAST_BLOCKS, "{blocks}");
        assert_eq!(reached.limit, None);
        assert!(reached.relative <= Some(0.01), "{reached:?}");
    }

    #[test]
    fn short_blocks_go_on_for_the_least_time() {
        let (blocks, _) = waves(0.0, 0.01, Duration::from_millis(1));
        assert_eq!(blocks as u128, LEAST_TIME.as_millis());
        let (blocks, reached) = waves(0.0, 0.01, Duration::from_micros(1));
        assert_eq!((blocks, reached.limit), (MOST_BLOCKS, None));
    }

    #[test]
    fn a_limit_ends_a_case_that_stays_imprecise() {
        let (blocks, reached) = waves(90.0, 1e-6, Duration::from_secs(4));
        assert_eq!((blocks, reached.limit), (15, Some(Limit::Time)));
        assert!(reached.relative > Some(1e-6));
        let (blocks, reached) = waves(90.0, 1e-9, Duration::from_millis(1));
        assert_eq!((blocks, reached.limit), (MOST_BLOCKS, Some(Limit::Blocks)));
        let (blocks, reached) = waves(0.0, 0.01, Duration::from_secs(61));
        assert_eq!((blocks, reached.relative), (1, None));
        let limit = reached.limit.expect("a limit");
        assert_eq!(limit.to_string(), "within 60 s");
    }

    #[test]
    fn blocks_add_up() {
        let mut blocks = Blocks::default();
        let timing = Timing {
            elapsed: vec![Duration::from_micros(40), Duration::from_micros(60)],
            ..Timing::new(Duration::from_micros(5), 20)
        };
        let iterations = vec![vec![Micros(1.0)], vec![Micros(2.0)]];
        blocks.add(&timing, 2.0, iterations.clone());
        blocks.add(&timing, 3.0, iterations);
        assert_eq!(
            blocks.elapsed,
            [Duration::from_micros(80), Duration::from_micros(120)]
        );
        assert_eq!((blocks.operations, blocks.mean()), (40, 2.5));
        assert_eq!(blocks.issued, Duration::from_micros(10));
        assert_eq!(blocks.iterations[1], [Micros(2.0), Micros(2.0)]);
    }
}
