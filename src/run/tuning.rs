//! Algorithm and protocol of each case, from a worker process that runs each case once with NCCL's
//! TUNING lines on: in the timed process they would be printed for each operation.

use std::collections::HashMap;

use super::{context::RunContext, planning::CutSizes, request::Request};
use crate::{collective::Case, nccl_log::AlgorithmChoice, sweep::plan::Plan};

/// What NCCL chose for each case, and a sentence that says why that is unknown, if it is.
type Choices = (HashMap<Case, AlgorithmChoice>, Option<String>);

#[cfg(feature = "nccl")]
pub(super) use self::with_nccl::{Worker, choices, worker};

#[cfg(feature = "nccl")]
mod with_nccl {
    use std::path::Path;

    use super::*;
    use crate::{
        env, facts,
        run::{backend::BackendChoice, worker::message::WorkerStart},
        world::deadline,
    };

    pub(in crate::run) use crate::run::worker::handle::Worker;

    /// Starts a worker if `--proof` or `-U`, and a GPU, ask for one. This must be called before MPI
    /// starts.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    pub(in crate::run) fn worker(request: &Request) -> anyhow::Result<Option<Worker>> {
        let may_use_gpus = match request.backend {
            BackendChoice::Auto => facts::nvidia::evidence(Path::new("/"), &env::var).is_some(),
            BackendChoice::Nccl => true,
            BackendChoice::Host | BackendChoice::Model => false,
        };
        let is_asked = request.proof || request.table.tuning;
        if !is_asked || request.list || !may_use_gpus {
            return Ok(None);
        }
        let arguments = crate::drop_in::words(std::env::args_os());
        Worker::start("tuning", arguments.into_iter().skip(1), &[]).map(Some)
    }

    /// Runs the workers of all processes over the cases of `plan`, on the GPUs of this process.
    ///
    /// # Errors
    ///
    /// Returns an error if an answer does not reach the other ranks; that would be a bug.
    pub(in crate::run) fn choices(
        worker: Worker,
        context: &RunContext,
        plan: &Plan,
        sizes: CutSizes,
    ) -> anyhow::Result<Choices> {
        let timeout = context.request.timeout;
        let _guard = deadline::limit("the short run that finds algorithms", timeout * 2);
        let start = WorkerStart {
            local_ranks: context.local_ranks(),
            float8: context.reduces_float8(),
            traffic: plan.ask.traffic.clone(),
            sizes,
        };
        let mut reports = match worker.run(start, timeout, context.world)? {
            Ok(reports) => reports,
            Err(why) => {
                let unknown = format!("algorithms and protocols are unknown: {}", why.what);
                return Ok((HashMap::new(), Some(unknown)));
            }
        };
        let of_rank_0 = reports.swap_remove(0).choices;
        let mut known = HashMap::new();
        for (case, choice) in plan.cases().zip(of_rank_0) {
            if let Some(choice) = choice {
                known.insert(*case, choice);
            }
        }
        Ok((known, None))
    }
}

#[cfg(not(feature = "nccl"))]
pub(super) use self::without_nccl::{Worker, choices, worker};

#[cfg(not(feature = "nccl"))]
mod without_nccl {
    use super::*;

    /// Without NCCL there is no worker.
    pub(in crate::run) enum Worker {}

    /// Starts nothing.
    pub(in crate::run) fn worker(_: &Request) -> anyhow::Result<Option<Worker>> {
        Ok(None)
    }

    /// Cannot be called, because there is no worker.
    pub(in crate::run) fn choices(
        worker: Worker,
        _: &RunContext,
        _: &Plan,
        _: CutSizes,
    ) -> anyhow::Result<Choices> {
        match worker {}
    }
}
