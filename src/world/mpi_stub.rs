//! What stands in for MPI in a binary that is built without it.

use super::{World, launch, solo::Solo};
use crate::{
    env,
    exit::{Code, Failure},
};

/// Returns a world of this process alone.
///
/// # Errors
/// Returns an error if a launcher started several processes.
pub fn start() -> anyhow::Result<Box<dyn World>> {
    if let Some(launched) = launch::processes(&env::var)
        && launched.count > 1
    {
        let what = format!(
            "{} processes were started, but this binary is built without MPI. Build it with the \
             feature mpi",
            launched.count
        );
        return Err(Failure::on_this_rank(Code::Launch, what));
    }
    Ok(Box::new(Solo))
}

/// Returns an empty string: this program is built with no MPI.
pub fn built_with() -> &'static str {
    ""
}

/// Returns an empty string: no MPI is loaded.
pub fn loaded() -> String {
    String::new()
}
