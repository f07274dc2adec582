//! Backends: what runs a collective on one kind of memory.
//!
//! [`Backend`] is all that the sweep knows of them. `nccl` runs on GPUs, `host` runs MPI on host
//! memory, `model` computes times. [`host::Communicator`] runs collectives on slices of a program
//! of one's own. A binary that is built without MPI or NCCL has a stub with the same functions,
//! each of which returns an error.

#[cfg(feature = "mpi")]
pub mod host;
#[cfg(not(feature = "mpi"))]
#[path = "host_stub.rs"]
pub mod host;
mod interface;
pub mod model;
#[cfg(feature = "nccl")]
pub mod nccl;
#[cfg(not(feature = "nccl"))]
#[path = "nccl_stub.rs"]
pub mod nccl;
pub mod options;
mod slices;
pub mod step;

pub use interface::{Backend, Timing, Waived, check_possible, rotation};
pub use slices::{Element, SliceOperation};
