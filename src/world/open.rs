//! Opens the world of a process: the ranks that the launcher started, or this process alone.

use std::time::Duration;

use super::{
    World, abort,
    cause::{self, Learned},
    deadline,
    launch::{self, Bootstrap},
    mpi_start::MpiStartReporter,
    same_program, signal,
    solo::Solo,
    tcp::{
        self,
        variables::{Contract, SIZE},
    },
    watch,
};
use crate::{env, exit};

/// Starts MPI and returns its ranks; a binary without MPI returns this process alone.
///
/// # Errors
/// Returns an error if MPI does not start, or if several processes were started and this binary is
/// built without MPI.
pub fn mpi() -> anyhow::Result<Box<dyn World>> {
    super::mpi::start()
}

/// The limits of waits: for the start of ranks, and for one that is silent while the others wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimits {
    /// For the start.
    pub start: Duration,
    /// For the silence.
    pub silence: Duration,
}

impl WaitLimits {
    /// Returns limits that are the same for all.
    pub fn all(limit: Duration) -> WaitLimits {
        WaitLimits {
            start: limit,
            silence: limit,
        }
    }
}

/// Returns the ranks that a launcher started, over MPI or over TCP, names this rank in messages,
/// and checks that all of them do `work`.
///
/// # Errors
/// Returns an error if MPI does not start, if the variables of the launcher are contradictory, or
/// if a rank is another program.
pub fn launched(work: &str, limits: WaitLimits) -> anyhow::Result<Box<dyn World>> {
    if launch::bootstrap(&env::var) == Bootstrap::Tcp {
        return over_tcp(work, limits);
    }
    let world = mpi_within(limits.start)?;
    abort::set_rank(world.rank());
    checked(world, work, limits)
}

/// Returns `world` with the watch over it if all of its processes do `work`.
fn checked(
    world: Box<dyn World>,
    work: &str,
    limits: WaitLimits,
) -> anyhow::Result<Box<dyn World>> {
    if world.size() == 1 {
        return Ok(world);
    }
    let _guard = deadline::limit("the first exchange of the ranks", limits.start);
    match same_program::check(&*world, work) {
        Ok(()) => watch::watched(world, limits.silence),
        // Launchers end all ranks when one has ended, so it must be the one that says why.
        Err(error) if world.rank() == 0 => abort::job(exit::code_of(&error), &format!("{error:#}")),
        Err(error) => {
            world.finish();
            Err(error)
        }
    }
}

/// Starts MPI, and says which rank of this node it waits for if that takes longer than `timeout`.
/// From then on the other ranks of this node are observed.
fn mpi_within(timeout: Duration) -> anyhow::Result<Box<dyn World>> {
    cause::arrive();
    let world = {
        let _guard = deadline::limit("MPI_Init", timeout);
        let _reporter = MpiStartReporter::start(timeout);
        mpi()?
    };
    end_on_loss();
    Ok(world)
}

/// Ends this process if another one of this node dies without a message. One that was told to stop
/// is not to blame, and this one need not report it once all its results are saved.
fn end_on_loss() {
    let is_over = || signal::stops_now().is_some() || abort::is_final();
    cause::report_losses(is_over, |Learned { note, is_new }| {
        abort::follow(&note.end, *is_new)
    });
}

/// Opens the world of a process that does `work`, such as `a sweep`, and names this rank in
/// messages. MPI is started if the work needs ranks or if an MPI launcher started this process;
/// where another launcher did, the ranks meet over TCP; otherwise the world is this process alone.
///
/// # Errors
/// Returns an error if MPI does not start in time, if the launcher and MPI do not fit, or if a rank
/// is another program.
pub fn world(work: &str, needs_ranks: bool, limits: WaitLimits) -> anyhow::Result<Box<dyn World>> {
    let is_half_set = env::var(SIZE).is_some() && launch::processes(&env::var).is_none();
    if launch::bootstrap(&env::var) == Bootstrap::Tcp || (needs_ranks && is_half_set) {
        return over_tcp(work, limits);
    }
    let world: Box<dyn World> = if needs_ranks || launch::processes(&env::var).is_some() {
        launch::check_before_mpi(&env::var)?;
        mpi_within(limits.start)?
    } else {
        Box::new(Solo)
    };
    launch::check(world.size(), &env::var)?;
    abort::set_rank(world.rank());
    checked(world, work, limits)
}

/// Meets the other ranks over TCP. Each process has its own variables, so one that cannot use them
/// ends the job here.
fn over_tcp(work: &str, limits: WaitLimits) -> anyhow::Result<Box<dyn World>> {
    match Contract::from_env(&env::var) {
        Ok(contract) => {
            cause::arrive();
            let world = tcp::start(&contract, limits.start);
            end_on_loss();
            checked(world, work, limits)
        }
        Err(error) => tcp::refuse(&env::var, &error),
    }
}
