//! The library for programs of one's own: the ranks of a job, collectives on their slices, and
//! sweeps.
//!
//! [`run`] starts MPI, passes a [`Job`] to a function, and ends all ranks together. The ranks are
//! those that mpirun or srun started; a program that nobody launched is one rank.
//!
//! ```no_run
//! use pxnbench::job::{self, RedOp};
//!
//! fn main() -> std::process::ExitCode {
//!     job::run(|job| {
//!         let mut sum = [1.0, job.rank() as f64];
//!         job.all_reduce_in_place(&mut sum, RedOp::Sum)?;
//!         job.print(format!("{} ranks, whose numbers add up to {}", sum[0], sum[1]))
//!     })
//! }
//! ```
//!
//! | for | see |
//! |---|---|
//! | collectives on slices, out of place and in place | [`Job::all_reduce`], [`Job::all_gather`] and the others |
//! | computing while a collective runs | [`Job::start_all_reduce`], [`Pending`] |
//! | times | [`Job::time`] |
//! | a sweep over sizes, verified, by nccl-tests' method | [`Job::sweep`], [`SweepSpec`], [`Measure`] |
//! | bandwidths | [`bandwidth`], [`Record::bandwidth`] |
//!
//! `examples/` in the source has six programs that use all of it. Everything runs over MPI on host
//! memory: the library is for learning and for measuring what a job's ranks and their network do.
//! GPUs are measured by the program itself.

mod collectives;
mod pending;
mod ranks;
mod start;

pub use half::{bf16, f16};

pub use crate::{
    backend::Element,
    collective::{
        BufferMode, Case, Collective,
        data::{DType, RedOp},
    },
    record::{Record, Status},
    sweep::{
        measure::Measure,
        plan::{Roots, SizeStep, SweepSpec},
    },
    units::{Bytes, GBps, Micros},
};
pub use pending::Pending;
pub use ranks::Job;
pub use start::run;

use crate::collective::CaseShape;

/// Returns algbw and busbw of a collective of `size` bytes that took `time` on `ranks` ranks, by
/// nccl-tests' formulas. The size is the larger of what a rank sends and receives, rounded down to
/// a multiple of 16 bytes per rank if the collective divides it.
pub fn bandwidth(collective: Collective, ranks: usize, size: Bytes, time: Micros) -> (GBps, GBps) {
    let shape = CaseShape {
        collective,
        dtype: DType::Uint8,
        redop: None,
        root: None,
        buffer_mode: BufferMode::OutOfPlace,
        ranks: ranks as u64,
    };
    shape.nearest(size).bandwidth(time)
}
