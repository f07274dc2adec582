//! Opens the world of a process: the ranks that the launcher started, or this process alone.

use std::time::Duration;

use super::{World, abort, deadline, launch, solo::Solo};
use crate::env;

/// Starts MPI and returns its ranks; a binary without MPI returns this process alone.
///
/// # Errors
/// Returns an error if MPI does not start, or if several processes were started and this binary is
/// built without MPI.
pub fn mpi() -> anyhow::Result<Box<dyn World>> {
    super::mpi::start()
}

/// Opens the world of a run and names this rank in messages. MPI is started if the run needs ranks
/// or if a launcher started this process; otherwise the world is this process alone.
///
/// # Errors
/// Returns an error if MPI does not start within `timeout`, or if the launcher and MPI do not fit.
pub fn world(needs_ranks: bool, timeout: Duration) -> anyhow::Result<Box<dyn World>> {
    let world: Box<dyn World> = if needs_ranks || launch::processes(&env::var).is_some() {
        launch::check_before_mpi(&env::var)?;
        let _guard = deadline::watch("MPI_Init", timeout);
        mpi()?
    } else {
        Box::new(Solo)
    };
    launch::check(world.size(), &env::var)?;
    abort::set_rank(world.rank());
    Ok(world)
}
