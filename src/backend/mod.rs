//! Backends: what runs a collective on one kind of memory.
//!
//! [`Backend`] is all that the sweep knows of them. `nccl` runs on GPUs, `host` runs MPI on host memory, `model`
//! computes times.

#[cfg(feature = "mpi")]
pub mod host;
pub mod model;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod options;

use std::time::Duration;

use crate::{
    collective::Case,
    record::MemoryUse,
    units::{Bytes, Micros},
};

/// Why a case cannot run here. Neither passed nor failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waived(pub String);

/// What [`Backend::run`] and [`Backend::time`] give back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    /// From the first operation's start to the last one's end, on each thread of this process.
    pub elapsed: Vec<Duration>,
    /// Until the last operation was handed to the device, on the first thread.
    pub issued: Duration,
    /// Operations in that time.
    pub operations: u64,
    /// Each iteration by the clock of the device that took longest; empty where that was not asked for.
    pub iteration_times: Vec<Micros>,
    /// Was the time computed instead of measured?
    pub computed: bool,
}

impl Timing {
    /// `operations` operations on one thread took `elapsed`.
    pub fn of(elapsed: Duration, operations: u32) -> Timing {
        Timing {
            elapsed: vec![elapsed],
            issued: elapsed,
            operations: operations.into(),
            ..Timing::default()
        }
    }

    /// The longest of the threads.
    pub fn longest(&self) -> Duration {
        self.elapsed.iter().copied().max().unwrap_or_default()
    }
}

/// Runs collectives on one kind of memory.
///
/// All ranks call the same methods with the same cases in the same order. What a method decides depends only on the
/// case and on facts that every rank has, so that all ranks take the same branch.
pub trait Backend {
    /// Can this case run here? Where [`Case::impossible`] says no, each backend does.
    ///
    /// # Errors
    /// The reason why not, the same on every rank.
    fn supports(&self, case: &Case) -> Result<(), Waived>;

    /// The largest buffer of which this process can hold two at once; `None` where nothing limits it.
    ///
    /// # Errors
    /// Where the memory cannot be asked.
    fn capacity(&self) -> anyhow::Result<Option<Bytes>>;

    /// Allocates a send and a receive buffer of `largest` bytes each. Called once, before the first case.
    ///
    /// # Errors
    /// Where there is not enough memory.
    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()>;

    /// Fills the buffers of `case` as its layout says, from `seed`. Ends when they are filled.
    ///
    /// # Errors
    /// Where the device fails.
    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()>;

    /// Runs `case` `times` times back to back, at rotating offsets, and waits for the end.
    ///
    /// # Errors
    /// Where the library, the device or a peer fails.
    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing>;

    /// Tells the library of the buffers, as the backend was told to. Called once, when every process has its buffers.
    ///
    /// # Errors
    /// Where the library fails.
    fn register(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Runs `case` once in the way in which it is timed, for its data to be checked.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn once(&mut self, case: &Case) -> anyhow::Result<()> {
        self.run(case, 1).map(|_| ())
    }

    /// Times `iters` iterations of `case` as the backend was told to run them. `barrier` waits for the other processes.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn time(&mut self, case: &Case, iters: u32, barrier: &dyn Fn()) -> anyhow::Result<Timing> {
        let _ = barrier;
        self.run(case, iters)
    }

    /// What the device's memory is used for; `None` where there is nothing to tell.
    ///
    /// # Errors
    /// Where it cannot be asked.
    fn memory_use(&self) -> anyhow::Result<Option<MemoryUse>> {
        Ok(None)
    }

    /// Counts the elements of this process's receive buffer that are not what `case` demands, after [`Backend::fill`]
    /// with `seed` and one run.
    ///
    /// # Errors
    /// Where the device fails.
    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64>;

    /// Makes the last checked element of the receive buffer wrong by one bit: the fault that shows that the check can
    /// fail. `false` where this process checks nothing.
    ///
    /// # Errors
    /// Where the device fails.
    fn corrupt(&mut self, case: &Case) -> anyhow::Result<bool>;

    /// Ends in good order: frees what is held, after the last case, on every rank.
    ///
    /// # Errors
    /// Where the library fails.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Can this case run anywhere? What each backend asks first.
///
/// # Errors
/// The reason why not.
pub fn possible(case: &Case) -> Result<(), Waived> {
    case.impossible().map_or(Ok(()), |why| Err(Waived(why)))
}

/// Byte offset of the buffers in iteration `iteration`, as nccl-tests rotates them, so that caches do not help and races
/// show: buffers of `largest` bytes hold several messages of `size` bytes side by side.
pub fn rotation(size: Bytes, largest: Bytes, iteration: u32) -> u64 {
    let places = largest.0.checked_div(size.0).unwrap_or(1).max(1);
    size.0 * (u64::from(iteration) % places)
}
