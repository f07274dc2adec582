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
    watch,
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

/// How long ranks may take to start, and how long one of them may be silent while the others wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the start.
    pub start: Duration,
    /// For the silence.
    pub silence: Duration,
}

impl Limits {
    /// Returns limits that are the same for all.
    pub fn all(limit: Duration) -> Limits {
        Limits {
            start: limit,
            silence: limit,
        }
    }
}

/// Returns the ranks that a launcher started, over MPI or over TCP, with the watch over them.
///
/// # Errors
/// Returns an error if MPI does not start, or if the variables of the launcher are contradictory.
pub fn launched(limits: Limits) -> anyhow::Result<Box<dyn World>> {
    let world = if launch::bootstrap(&env::var) == Bootstrap::Tcp {
        over_tcp(limits.start)
    } else {
        let _guard = deadline::watch("MPI_Init", limits.start);
        mpi()?
    };
    abort::set_rank(world.rank());
    watch::watched(world, limits.silence)
}

/// Opens the world of a run with the watch over it, and names this rank in messages. MPI is started if the run needs ranks
/// or if an MPI launcher started this process; where another launcher did, the ranks meet over TCP; otherwise the world is this
/// process alone.
///
/// # Errors
/// Returns an error if MPI does not start in time, or if the launcher and MPI do not fit.
pub fn world(needs_ranks: bool, limits: Limits) -> anyhow::Result<Box<dyn World>> {
    let is_half_set = env::var(SIZE).is_some() && launch::processes(&env::var).is_none();
    if launch::bootstrap(&env::var) == Bootstrap::Tcp || (needs_ranks && is_half_set) {
        return watch::watched(over_tcp(limits.start), limits.silence);
    }
    let world: Box<dyn World> = if needs_ranks || launch::processes(&env::var).is_some() {
        launch::check_before_mpi(&env::var)?;
        let _guard = deadline::watch("MPI_Init", limits.start);
        mpi()?
    } else {
        Box::new(Solo)
    };
    launch::check(world.size(), &env::var)?;
    abort::set_rank(world.rank());
    watch::watched(world, limits.silence)
}

/// Meets the other ranks over TCP. Each process has its own variables, so one that cannot use them ends the job here.
fn over_tcp(timeout: Duration) -> Box<dyn World> {
    match Contract::from_env(&env::var) {
        Ok(contract) => tcp::start(&contract, timeout),
        Err(error) => tcp::refuse(&env::var, &error),
    }
}
