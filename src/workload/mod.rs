//! Training steps as data: computation, the collectives between it, and what waits for what.
//!
//! A [`Workload`] is independent of the number of ranks. [`Workload::on`] makes a [`Step`] of it: the same operations with the
//! communicators and sizes that they have on so many ranks. Nothing here runs anything.

mod built_in;
mod file;
mod group;
mod on_ranks;
mod operation;
mod step;
mod trace;
mod volume;

pub use built_in::{BUILT_IN, BuiltInWorkload, WorkloadOptions};
pub use group::{Dimension, DimensionSize, Group};
pub use operation::{CollectiveCall, Operation, Work, Workload};
pub use step::{Communicator, Step, StepOperation, StepWork};
pub use trace::TraceReading;
pub use volume::{CollectiveVolume, StepVolume};
