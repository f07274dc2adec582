//! The processes of this job and the few exchanges a sweep needs between them.
//!
//! [`World`] is what the rest of the program knows of MPI. [`placement`] says which process is on which node and which GPU
//! it takes; [`deadline`] ends the job when something hangs; [`signal`] ends it when asked to; [`scratch`] is where a
//! process has temporary files.

pub mod abort;
pub mod deadline;
pub mod launch;
#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(not(feature = "mpi"))]
#[path = "mpi_stub.rs"]
pub mod mpi;
pub mod open;
pub mod placement;
pub mod scratch;
pub mod signal;
pub mod solo;

use serde::{Serialize, de::DeserializeOwned};

use crate::exit::{self, Failure};

/// The processes of a job. All methods are collective: every process calls them in the same order.
pub trait World {
    /// This process, from 0.
    fn rank(&self) -> u32;

    /// All processes.
    fn size(&self) -> u32;

    /// Returns when every process has called it.
    fn barrier(&self);

    /// Every process gets what process 0 passed.
    fn broadcast(&self, bytes: &[u8]) -> Vec<u8>;

    /// Every process gets what each process passed, in rank order.
    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;

    /// The sum over all processes.
    fn all_reduce_sum(&self, value: u64) -> u64;

    /// The mean over all processes.
    fn mean(&self, value: f64) -> f64;

    /// What the processes talk through, for the records: `Open MPI v4.1.4`, or empty where there is only one process.
    fn library(&self) -> String;

    /// Ends in good order, on every process.
    fn finish(self: Box<Self>);
}

/// Every process gets `value` of each process, in rank order.
///
/// # Errors
/// Where a value does not survive JSON; that would be a bug.
pub fn all_gather<T: Serialize + DeserializeOwned>(
    world: &dyn World,
    value: &T,
) -> anyhow::Result<Vec<T>> {
    let all = world.all_gather(&serde_json::to_vec(value)?);
    all.iter()
        .map(|bytes| Ok(serde_json::from_slice(bytes)?))
        .collect()
}

/// Every process gets the value of process 0.
///
/// # Errors
/// As [`all_gather`].
pub fn broadcast<T: Serialize + DeserializeOwned>(
    world: &dyn World,
    value: &T,
) -> anyhow::Result<T> {
    Ok(serde_json::from_slice(
        &world.broadcast(&serde_json::to_vec(value)?),
    )?)
}

/// Turns a step that failed on any process into one error that all processes know, so that they can end together: one
/// prints the sentence, and none is left waiting.
///
/// # Errors
/// The error of the first process that failed, as [`Failure::on_all_ranks`].
pub fn agree<T>(world: &dyn World, step: anyhow::Result<T>) -> anyhow::Result<T> {
    let mine = step
        .as_ref()
        .err()
        .map(|error| (exit::code_of(error), format!("{error:#}")));
    let all = all_gather(world, &mine)?;
    let failed = all.iter().flatten().count();
    let Some((rank, (code, what))) = all
        .into_iter()
        .enumerate()
        .find_map(|(rank, e)| Some((rank, e?)))
    else {
        return step;
    };
    let what = match (world.size(), failed) {
        (1, _) => what,
        (size, failed) if failed as u32 == size => format!("all {size} ranks: {what}"),
        (_, 1) => format!("rank {rank}: {what}"),
        (size, failed) => format!("rank {rank} ({failed} of {size} ranks failed): {what}"),
    };
    Err(Failure::on_all_ranks(code, what))
}
