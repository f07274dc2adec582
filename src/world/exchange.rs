//! The processes of a job and what they exchange.

use serde::{Serialize, de::DeserializeOwned};

use crate::exit::{self, Failure};

/// The processes of a job. All methods are collective: every process calls them in the same order.
pub trait World {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> u32;

    /// Returns the number of processes.
    fn size(&self) -> u32;

    /// Returns when every process has called it.
    fn barrier(&self);

    /// Returns what process 0 passed.
    fn broadcast(&self, bytes: &[u8]) -> Vec<u8>;

    /// Returns what each process passed, in rank order.
    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;

    /// Returns the sum over all processes.
    fn all_reduce_sum(&self, value: u64) -> u64;

    /// Returns the mean over all processes.
    fn mean(&self, value: f64) -> f64;

    /// Returns the library through which the processes communicate, such as `Open MPI v4.1.4`;
    /// empty if there is only one process.
    fn library(&self) -> String;

    /// Ends the communication, on every process.
    fn finish(self: Box<Self>);
}

/// Returns `value` of each process, in rank order.
///
/// # Errors
/// Returns an error if a value cannot be converted to JSON and back, which would be a bug.
pub fn all_gather<T: Serialize + DeserializeOwned>(
    world: &dyn World,
    value: &T,
) -> anyhow::Result<Vec<T>> {
    let mut values = Vec::new();
    for bytes in world.all_gather(&serde_json::to_vec(value)?) {
        values.push(serde_json::from_slice(&bytes)?);
    }
    Ok(values)
}

/// Returns the value of process 0.
///
/// # Errors
/// As [`all_gather`].
pub fn broadcast<T: Serialize + DeserializeOwned>(
    world: &dyn World,
    value: &T,
) -> anyhow::Result<T> {
    let bytes = world.broadcast(&serde_json::to_vec(value)?);
    Ok(serde_json::from_slice(&bytes)?)
}

/// The facts of a failed step that other processes need.
type StepError = (exit::Code, String);

/// Makes the outcome of `step` the same on all processes: if it failed on any of them, all get the
/// same error. They can then end together, so that one prints the error and none is left waiting.
///
/// # Errors
/// Returns the error of the first process that failed, as [`Failure::on_all_ranks`].
pub fn agree<T>(world: &dyn World, step: anyhow::Result<T>) -> anyhow::Result<T> {
    let own: Option<StepError> = match &step {
        Ok(_) => None,
        Err(error) => Some((exit::code_of(error), format!("{error:#}"))),
    };
    let errors = all_gather(world, &own)?;
    let failed = errors.iter().flatten().count();
    let Some((rank, (code, what))) = first_error(errors) else {
        return step;
    };
    let size = world.size();
    let what = if size == 1 {
        what
    } else if failed as u32 == size {
        format!("all {size} ranks: {what}")
    } else if failed == 1 {
        format!("rank {rank}: {what}")
    } else {
        format!("rank {rank} ({failed} of {size} ranks failed): {what}")
    };
    Err(Failure::on_all_ranks(code, what))
}

/// Returns the first error and the rank that it is from.
fn first_error(errors: Vec<Option<StepError>>) -> Option<(usize, StepError)> {
    for (rank, error) in errors.into_iter().enumerate() {
        if let Some(error) = error {
            return Some((rank, error));
        }
    }
    None
}
