//! What a replay knows of a backend: training steps, whose operations overlap.

mod mode;
mod order;

pub use self::{mode::StepMode, order::waits};

use crate::{collective::Case, units::Micros, workload::Step};

/// When an operation ran on this rank, since the begin of its step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// When the operations before it in its stream and those that it waits for had ended.
    pub begin: Micros,
    /// When it had ended.
    pub end: Micros,
}

/// The times of one step on this rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTimes {
    /// From the begin of the first operation to the end of the last.
    pub total: Micros,
    /// For each operation of the step, when it ran; `None` for those that the mode leaves out.
    pub operations: Vec<Option<Span>>,
}

/// A backend that runs training steps. All ranks call the same methods in the same order. None of
/// them has a deadline: each notes its progress ([`progress`](crate::world::progress)), and the
/// caller limits how long it may make none ([`deadline`](crate::world::deadline)).
pub trait StepBackend {
    /// Runs `case` once on communicator `communicator` of the step, alone, and returns how many
    /// elements of the result are wrong on this rank. It is started as in a step.
    ///
    /// # Errors
    /// Returns an error if the library, the device or a peer fails.
    fn verify(&mut self, communicator: usize, case: &Case, seed: u64) -> anyhow::Result<u64>;

    /// Runs the step `times` times, one after another, and returns the times of each. Before the
    /// first, `barrier` waits for the other processes; each of the others begins when the one
    /// before it has ended on this rank.
    ///
    /// # Errors
    /// As [`StepBackend::verify`].
    fn run(
        &mut self,
        mode: StepMode,
        times: u32,
        barrier: &dyn Fn(),
    ) -> anyhow::Result<Vec<StepTimes>>;

    /// Frees what the backend holds. Called on every rank after the last step.
    ///
    /// # Errors
    /// Returns an error if the library fails.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// How computation is imitated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputeOptions {
    /// The share of a GPU's multiprocessors that computation keeps busy, above 0 and at most 1. The
    /// GPU spreads the blocks of a part of it as it likes, and they have one wave: each takes as
    /// long as its kernel.
    pub multiprocessors: f64,
    /// The time of one kernel: computation is a sequence of kernels, as in a training step. While
    /// three streams had work, a kernel took about 1.4 us longer on an H200: with kernels of 25 us,
    /// a step of FSDP took 5 % too long.
    pub kernel: Micros,
}

impl Default for ComputeOptions {
    fn default() -> ComputeOptions {
        ComputeOptions {
            multiprocessors: 1.0,
            kernel: Micros(100.0),
        }
    }
}

/// What opens a [`StepBackend`] on this process.
#[derive(Clone, Debug)]
pub struct StepSetup<'a> {
    /// The step.
    pub step: &'a Step,
    /// The rank of this process in the job.
    pub rank: u32,
    /// How computation is imitated.
    pub compute: ComputeOptions,
}
