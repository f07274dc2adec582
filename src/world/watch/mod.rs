//! The watch: each process says how far it is over a channel of its own, so that a rank that is
//! stuck is named.
//!
//! A thread of each process sends beats (`report`) up a tree of connections (`channel`, `meeting`),
//! a few a second. What is known of the ranks below travels on in a size that does not depend on
//! their number (`summary`). The thread of rank 0 decides (`member`, `verdict`); if rank 0 is
//! silent, a rank below it does. Nothing here calls MPI, CUDA or NCCL, or waits for anybody: if a
//! connection cannot be made, the run goes on, and [`remark`] says whom the watch does not reach.

mod addresses;
mod channel;
mod evidence;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod meeting;
mod member;
mod report;
#[cfg(test)]
mod simulation_tests;
mod start;
mod summary;
mod verdict;
mod watched;
mod watcher;

pub use self::{
    evidence::{forget_evidence, set_evidence},
    start::watched,
    watcher::{remark, set_silence},
};
