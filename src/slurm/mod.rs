//! The Slurm job that this process is in, and how to start ranks in it. Pure: variables in, values
//! and command lines out; nothing is started here.

pub mod hosts;
mod job;
pub mod lost;
pub mod step;

pub use job::{SlurmJob, is_end};
