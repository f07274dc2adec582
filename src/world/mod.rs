//! The processes of this job and the few exchanges that a sweep needs between them.
//!
//! [`World`] is all that the rest of the program knows of MPI and of [`tcp`], and [`open`] starts
//! one of them. [`launch`] reads what the launcher says before that, and [`placement`] tells which
//! process is on which node and which GPU it uses. Three modules end a job: [`deadline`] when
//! something hangs, [`watch`] when it knows which rank hangs, by what each says of its
//! [`progress`], and [`signal`] when asked to, all through [`abort`]; [`cause`] finds out which
//! rank failed first, and [`inquiry`] is what is asked before a job that hangs is ended.
//! [`scratch`] is the folder for the temporary files of a process, and [`child`] reads and ends the
//! programs that it starts. [`resource_limits`] checks that the limits of the system leave enough
//! to run.

pub mod abort;
pub mod cause;
pub mod child;
pub mod child_end;
pub mod deadline;
pub mod end_of_job;
mod end_printing;
mod exchange;
pub mod inquiry;
mod last_words;
pub mod launch;
#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(not(feature = "mpi"))]
#[path = "mpi_stub.rs"]
pub mod mpi;
mod mpi_start;
pub mod open;
pub mod placement;
mod private;
pub mod process_stat;
pub mod progress;
pub mod resource_limits;
pub mod rest;
mod running_clock;
mod same_program;
pub mod scratch;
pub mod signal;
pub mod solo;
pub mod tcp;
pub mod unfinished;
pub mod watch;
mod within;

pub use exchange::{World, agree, all_gather, broadcast};
