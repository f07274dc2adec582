//! What the sweep knows of a backend, and what all backends share.

use std::time::Duration;

use crate::{
    collective::{Case, FaultTarget, guard::Damage},
    record::MemoryUse,
    units::{Bytes, Micros},
};

/// The reason why a case cannot run here. It has neither passed nor failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waived(pub String);

/// The result of [`Backend::run`] and [`Backend::time`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    /// From the first operation's start to the last one's end, on each thread of this process.
    pub elapsed: Vec<Duration>,
    /// Until the last operation was handed to the device, on the first thread.
    pub issued: Duration,
    /// Operations in that time.
    pub operations: u64,
    /// The time of each iteration on the device that took longest; empty unless requested.
    pub iteration_times: Vec<Micros>,
    /// Whether the time was computed instead of measured.
    pub computed: bool,
}

impl Timing {
    /// Returns the timing of `operations` operations that took `elapsed` on one thread.
    pub fn new(elapsed: Duration, operations: u32) -> Timing {
        Timing {
            elapsed: vec![elapsed],
            issued: elapsed,
            operations: operations.into(),
            ..Timing::default()
        }
    }

    /// Returns the time of the slowest thread.
    pub fn longest(&self) -> Duration {
        self.elapsed.iter().copied().max().unwrap_or_default()
    }
}

/// A way to run collectives on one kind of memory.
///
/// All ranks call the same methods with the same cases in the same order. What a method decides
/// depends only on the case and on facts that every rank has, so all ranks take the same branch.
/// What takes long notes its progress ([`progress`](crate::world::progress)); otherwise it counts
/// as stuck.
pub trait Backend {
    /// Checks whether this case can run here. It cannot on any backend if [`check_possible`] fails.
    ///
    /// # Errors
    /// Returns the reason if it cannot, which is the same on every rank.
    fn supports(&self, case: &Case) -> Result<(), Waived>;

    /// Returns the largest buffer of which this process can hold two at once, or `None` if there is
    /// no limit.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be queried.
    fn capacity(&self) -> anyhow::Result<Option<Bytes>>;

    /// Allocates a send and a receive buffer of `largest` bytes each. Called once, before the first
    /// case.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()>;

    /// Fills the buffers of `case` as its layout says, from `seed`. Returns when they are filled.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()>;

    /// Runs `case` `times` times back to back, at rotating offsets, and waits for the end.
    ///
    /// # Errors
    /// Returns an error if the library, the device or a peer fails.
    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing>;

    /// Registers the buffers with the library if the backend was opened to do so. Called once, when
    /// every process has its buffers.
    ///
    /// # Errors
    /// Returns an error if the library fails.
    fn register(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Runs `case` once in the way in which it is timed, so that its data can be checked.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn once(&mut self, case: &Case) -> anyhow::Result<()> {
        self.run(case, 1)?;
        Ok(())
    }

    /// Times `iters` iterations of `case` with the options that the backend was opened with.
    /// `barrier` waits for the other processes.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn time(&mut self, case: &Case, iters: u32, barrier: &dyn Fn()) -> anyhow::Result<Timing> {
        let _ = barrier;
        self.run(case, iters)
    }

    /// Checks whether the library has a model of its times.
    ///
    /// # Errors
    /// Returns the reason if it has none, which is the same on every rank.
    fn predicts(&self) -> Result<(), Waived> {
        Err(Waived(
            "only NCCL predicts times, and it does not run here".into(),
        ))
    }

    /// Returns the id of a new communicator for [`Backend::predict`].
    ///
    /// # Errors
    /// Returns an error if the library fails.
    fn prediction_id(&self) -> anyhow::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Returns the time that the library's model predicts for `case`, without running it; `None` if
    /// it has none. Called on every rank after [`Backend::allocate`], with the same `id`, which is
    /// used once.
    ///
    /// # Errors
    /// Returns an error if the library fails.
    fn predict(&mut self, case: &Case, id: &[u8]) -> anyhow::Result<Option<Micros>> {
        let _ = (case, id);
        Ok(None)
    }

    /// Returns what the device's memory is used for, or `None` if the backend uses no device
    /// memory.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be queried.
    fn memory_use(&self) -> anyhow::Result<Option<MemoryUse>> {
        Ok(None)
    }

    /// Returns the bytes of device memory that are not free on the devices of this process, whoever
    /// uses them; `None` if the backend uses no device memory.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be queried.
    fn used_memory(&self) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }

    /// Counts the elements of this process's receive buffer that differ from what `case` requires,
    /// after [`Backend::fill`] with `seed` and one run.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64>;

    /// Fills the guard zones beside the buffers of `case` with their patterns of `seed`. Called
    /// after [`Backend::fill`], before the operation whose data are checked.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn guard(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let _ = (case, seed);
        Ok(())
    }

    /// Returns what has changed since [`Backend::fill`] and [`Backend::guard`] with `seed` where
    /// the library may change nothing: in guard zones, and out of place in the send buffer. Empty
    /// if the backend has no guard zones.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn damage(&mut self, case: &Case, seed: u64) -> anyhow::Result<Vec<Damage>> {
        let _ = (case, seed);
        Ok(Vec::new())
    }

    /// Flips one bit at `target`: a fault that shows that the check can fail. Returns `false` if
    /// this process checks no such place in `case`.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn corrupt(&mut self, case: &Case, target: FaultTarget) -> anyhow::Result<bool>;

    /// Frees what the backend holds. Called on every rank after the last case.
    ///
    /// # Errors
    /// Returns an error if the library fails.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Checks whether `case` can run on any backend.
///
/// # Errors
/// Returns the reason if it cannot.
pub fn check_possible(case: &Case) -> Result<(), Waived> {
    match case.impossible() {
        None => Ok(()),
        Some(why) => Err(Waived(why)),
    }
}

/// Returns the byte offset of the buffers in iteration `iteration`. As in nccl-tests, messages of
/// `size` bytes rotate through buffers of `largest` bytes, so that caches do not help and races
/// show.
pub fn rotation(size: Bytes, largest: Bytes, iteration: u32) -> u64 {
    let slots = largest.0.checked_div(size.0).unwrap_or(1).max(1);
    size.0 * (u64::from(iteration) % slots)
}
