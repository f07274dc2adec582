//! Backends: what runs a collective on one kind of memory.
//!
//! [`Backend`] is all that the sweep knows of them. `nccl` runs on GPUs, `host` runs MPI on host memory, `model`
//! computes times.

#[cfg(feature = "mpi")]
pub mod host;
pub mod model;
#[cfg(feature = "nccl")]
pub mod nccl;

use std::time::Duration;

use crate::{collective::Case, units::Bytes};

/// Why a case cannot run here. Neither passed nor failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waived(pub String);

/// What [`Backend::run`] gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from the first operation's start to the last one's end, on this process.
    pub elapsed: Duration,
    /// Was the time computed instead of measured?
    pub computed: bool,
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
