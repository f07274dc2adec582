//! The backend that runs NCCL on GPUs: each GPU of the process is a rank, with one stream.
//!
//! From the top down: [`NcclLibrary`] loads NCCL and opens the `NcclBackend`, which drives the
//! ranks of this process (`process_ranks`), which are divided among threads (`thread_ranks`); each
//! rank is a GPU and its end of a communicator (`rank_device`), with its `buffers`. [`comm`] is the
//! communicator, [`call`] the NCCL calls for a case, [`device`] the GPU and its memory. [`kernels`]
//! fill and check data on the GPU, [`selfcheck`] compares them with their description, and `damage`
//! finds what changed beside them. `step` runs training steps: several communicators on one GPU,
//! and computation beside them, whose kernel is in `compute`. Nothing in here has a deadline: every
//! wait polls, and the caller's deadline ends the process.

mod backend;
mod buffers;
pub mod call;
pub mod comm;
mod compute;
mod damage;
pub mod device;
mod float8;
mod iteration_events;
pub mod kernels;
mod library;
mod memory;
mod module;
mod polling;
mod process_ranks;
mod progress_marks;
mod rank_device;
pub mod selfcheck;
mod step;
mod thread_ranks;
mod threads;

pub use self::{library::NcclLibrary, selfcheck::self_check};
