//! Training steps as data: their computation, their collectives, the copies that these need, and
//! what waits for what.
//!
//! A [`Workload`] does not depend on the number of ranks. [`Workload::on`] makes a [`Step`] of it:
//! the same operations with their communicators and sizes on a number of ranks. Nothing here runs a
//! step.

mod built_in;
mod file;
mod group;
mod limits;
mod memory_copies;
mod on_ranks;
mod operation;
mod step;
mod trace;
mod volume;

pub use built_in::{BUILT_IN, BuiltInWorkload, WorkloadOptions};
pub use group::{Dimension, DimensionSize, Group};
pub use memory_copies::{MEMORY_RATE, MemoryCopies};
pub use operation::{CollectiveCall, Operation, Work, Workload};
pub use step::{Communicator, Step, StepOperation, StepWork};
pub use trace::TraceReading;
pub use volume::{CollectiveVolume, CopiesVolume, StepVolume};
