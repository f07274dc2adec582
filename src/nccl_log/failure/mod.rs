//! The failure that a log shows: what it is, where it began, and whether it was a crash or a hang.
//!
//! `known` says in tables what the words of NCCL, PyTorch and launchers mean; `completion`,
//! `watchdog` and `signals` read those that have numbers. `failures` keeps the first line that is
//! nearest to the cause, and `report` is that as text.

mod completion;
mod entered;
mod failures;
mod known;
mod report;
mod signals;
#[cfg(test)]
mod tests;
mod watchdog;

pub use failures::{Failure, Place};
pub(super) use failures::{Failures, Position};
pub use known::FailureKind;
pub use report::add_failure;
pub use watchdog::{Hang, Waiting};
