//! [`run`]: from the start of MPI to the exit code.

use std::{
    cell::Cell,
    env::{args_os, current_exe},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    time::Duration,
};

use super::ranks::Job;
use crate::{
    backend::host::Communicator,
    env,
    exit::{Code, Failure},
    fault,
    world::{
        self, abort, deadline,
        launch::{self, Bootstrap},
        open::WaitLimits,
        scratch,
    },
};

/// How long a single operation may take unless the job sets it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs `work` as a rank of the job that mpirun or srun started, or alone, and returns the exit
/// code. To be called by `main` before anything else, on its thread. An error is printed as one
/// sentence and ends all ranks.
pub fn run(work: impl FnOnce(&Job) -> anyhow::Result<()>) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        // Unwinding would leave the other ranks waiting.
        abort::job(Code::Internal, &panic.to_string());
    }));
    deadline::set_remedy("call Job::set_timeout");
    let code = start_alone()
        .and_then(|()| work_in_world(work))
        .unwrap_or_else(|error| fault::report(&error));
    scratch::remove();
    ExitCode::from(code as u8)
}

/// Starts this program again in its own process if it is alone and MPI needs settings for that:
/// they must be in the environment from the start, because it cannot be changed safely later.
fn start_alone() -> anyhow::Result<()> {
    let settings = launch::settings_alone(&env::var);
    if settings.is_empty() {
        return Ok(());
    }
    let program = current_exe()?;
    let mut again = Command::new(&program);
    again.args(args_os().skip(1)).envs(settings);
    // It returns only if it fails.
    let why = again.exec();
    let what = format!("{} cannot be started: {why}", program.display());
    Err(Failure::on_this_rank(Code::Launch, what))
}

fn work_in_world(work: impl FnOnce(&Job) -> anyhow::Result<()>) -> anyhow::Result<Code> {
    let job = Job::open()?;
    let end = work(&job).map(|()| Code::Fine);
    let end = fault::end_together(end, job.world.size());
    job.close();
    end
}

/// Refuses ranks that would meet over TCP: these collectives are those of MPI.
fn refuse_tcp() -> anyhow::Result<()> {
    if launch::bootstrap(&env::var) == Bootstrap::Mpi {
        return Ok(());
    }
    let what = "this program needs MPI, but RANK is set and no MPI launcher started it. Start it \
                with mpirun or srun, or unset RANK";
    Err(Failure::on_all_ranks(Code::Launch, what))
}

impl Job {
    fn open() -> anyhow::Result<Job> {
        refuse_tcp()?;
        Ok(Job {
            world: world::open::world("a program of its own", true, WaitLimits::all(TIMEOUT))?,
            communicator: Communicator::open()?,
            timeout: Cell::new(TIMEOUT),
        })
    }

    /// Ends MPI, on every rank.
    fn close(self) {
        let Job {
            world,
            communicator,
            timeout,
        } = self;
        communicator.close();
        let _guard = deadline::limit("the shutdown of MPI on all ranks", timeout.get());
        world.finish();
    }
}
