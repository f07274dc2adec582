//! Algorithm and protocol of each case, from a worker that runs each once with NCCL's TUNING lines on: in the timed process
//! they would be printed for each operation.

use std::collections::HashMap;

use super::{args::Args, job::RunContext};
use crate::{
    collective::Case, env, nccl_log::AlgorithmChoice, sweep::plan::Plan, units::Bytes, world::World,
};

#[cfg(feature = "nccl")]
pub(super) use crate::cmd::worker::handle::Worker;

/// No NCCL, no worker.
#[cfg(not(feature = "nccl"))]
pub(super) enum Worker {}

/// The smallest and largest size, where they are not those of the command line.
pub(super) type Sizes = Option<(Bytes, Bytes)>;

/// What NCCL chose for each case, and the sentence that says why that is not known.
type Choices = (HashMap<Case, AlgorithmChoice>, Option<String>);

/// The worker, started where `--proof` and a GPU ask for one. To be called before MPI starts.
///
/// # Errors
/// Where the process cannot be started.
#[cfg(feature = "nccl")]
pub(super) fn worker(args: &Args) -> anyhow::Result<Option<Worker>> {
    use crate::{cmd::choose::BackendChoice, facts};

    let may_use_gpus = match args.backend {
        BackendChoice::Auto => {
            facts::nvidia::evidence(std::path::Path::new("/"), &env::var).is_some()
        }
        BackendChoice::Nccl => true,
        BackendChoice::Host | BackendChoice::Model => false,
    };
    if !args.proof || args.list || !may_use_gpus {
        return Ok(None);
    }
    Worker::start(
        "tuning",
        crate::cmd::words(std::env::args_os()).into_iter().skip(1),
        &[],
    )
    .map(Some)
}

#[cfg(not(feature = "nccl"))]
pub(super) fn worker(_: &Args) -> anyhow::Result<Option<Worker>> {
    Ok(None)
}

/// Runs the workers of all processes over the cases of `plan`, on the GPUs of this one.
///
/// # Errors
/// Where an answer does not reach the other ranks; that would be a bug.
#[cfg(feature = "nccl")]
pub(super) fn choices(
    worker: Worker,
    args: &Args,
    plan: &Plan,
    sizes: Sizes,
    job: &RunContext,
    world: &dyn World,
) -> anyhow::Result<Choices> {
    use crate::{cmd::worker::message::WorkerStart, world::deadline};

    let _guard = deadline::watch("the short run that tells algorithms", args.timeout() * 2);
    let local_ranks = job.local_ranks(world.rank(), args);
    let (float8, traffic) = (job.reduces_float8(), plan.ask.traffic.clone());
    let start = WorkerStart {
        local_ranks,
        float8,
        traffic,
        sizes,
    };
    let mut all = match worker.run(start, args.timeout(), world)? {
        Ok(all) => all,
        Err(why) => {
            return Ok((
                HashMap::new(),
                Some(format!("algorithms and protocols cannot be told: {why}")),
            ));
        }
    };
    let first = all.swap_remove(0).choices;
    let known = plan
        .cases()
        .zip(first)
        .filter_map(|(case, choice)| Some((*case, choice?)));
    Ok((known.collect(), None))
}

#[cfg(not(feature = "nccl"))]
pub(super) fn choices(
    worker: Worker,
    _: &Args,
    _: &Plan,
    _: Sizes,
    _: &RunContext,
    _: &dyn World,
) -> anyhow::Result<Choices> {
    match worker {}
}
