//! Opens the world of a process: the ranks that the launcher started, or this process alone.

use std::time::Duration;

use super::{
    World, abort, deadline,
    launch::{self, Bootstrap},
    solo::Solo,
    tcp::{
        self,
        variables::{Contract, SIZE},
    },
};
use crate::env;

/// Starts MPI and returns its ranks; a binary without MPI returns this process alone.
///
/// # Errors
/// Returns an error if MPI does not start, or if several processes were started and this binary is
/// built without MPI.
pub fn mpi() -> anyhow::Result<Box<dyn World>> {
    super::mpi::start()
}

/// Returns the ranks that a launcher started, over MPI or over TCP.
///
/// # Errors
/// Returns an error if MPI does not start, or if the variables of the launcher are contradictory.
pub fn launched(timeout: Duration) -> anyhow::Result<Box<dyn World>> {
    if launch::bootstrap(&env::var) == Bootstrap::Tcp {
        return Ok(over_tcp(timeout));
    }
    let _guard = deadline::watch("MPI_Init", timeout);
    mpi()
}

/// Opens the world of a run and names this rank in messages. MPI is started if the run needs ranks
/// or if an MPI launcher started this process; where another launcher did, the ranks meet over TCP; otherwise the world is this
/// process alone.
///
/// # Errors
/// Returns an error if MPI does not start within `timeout`, or if the launcher and MPI do not fit.
pub fn world(needs_ranks: bool, timeout: Duration) -> anyhow::Result<Box<dyn World>> {
    let is_half_set = env::var(SIZE).is_some() && launch::processes(&env::var).is_none();
    if launch::bootstrap(&env::var) == Bootstrap::Tcp || (needs_ranks && is_half_set) {
        return Ok(over_tcp(timeout));
    }
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

/// Meets the other ranks over TCP. Each process has its own variables, so one that cannot use them ends the job here.
fn over_tcp(timeout: Duration) -> Box<dyn World> {
    match Contract::from_env(&env::var) {
        Ok(contract) => tcp::start(&contract, timeout),
        Err(error) => tcp::refuse(&env::var, &error),
    }
}
