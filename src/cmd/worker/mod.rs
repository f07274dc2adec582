//! Worker processes. NCCL reads a variable once in a process, so what is to be seen under another setting is run by
//! another process: each rank starts one a setting, before it touches MPI or CUDA itself.
//!
//! A worker knows no MPI. [`local_ranks`] is the rank's side: it hands over rank and GPU, and passes NCCL's unique id on. Here is
//! the worker's side.

pub(in crate::cmd) mod handle;
pub(in crate::cmd) mod message;

use std::{
    io::{BufRead, Write},
    path::Path,
    sync::mpsc::{self, Receiver},
    thread,
};

use anyhow::Context;

use self::message::{FromWorker, ToWorker, WorkerReport, WorkerStart};
use super::{log_tail::LogTail, run};
use crate::{
    backend::{Backend, nccl::NcclBackend},
    collective::Case,
    exit::Code,
    native::nccl::Nccl,
    nccl_log::{AlgorithmChoice, Fold},
    sweep::plan::Plan,
    world::abort,
};

/// Runs each case once, for the rank that started this process.
#[derive(Debug, clap::Args)]
// The sweep's arguments below are a group of the name that this one would have.
#[group(id = "worker")]
pub struct Args {
    #[command(flatten)]
    run: run::Args,
}

/// Runs the worker.
///
/// # Errors
/// None: what fails is said to the rank that started it.
pub(super) fn run(args: &Args) -> anyhow::Result<Code> {
    let last = match work(args, &listen()) {
        Ok(ended) => FromWorker::Ended(Box::new(ended)),
        Err(error) => FromWorker::Failed(format!("{error:#}")),
    };
    say(&last)?;
    // Waiting for NCCL and CUDA to unload after a failure may be waiting for a rank that is gone.
    abort::end_quietly(Code::Fine)
}

/// What the rank says. It is gone when its line closes, and then so is this process.
fn listen() -> Receiver<ToWorker> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str(&line) else {
                break;
            };
            if sender.send(message).is_err() {
                return;
            }
        }
        abort::end_quietly(Code::Stopped)
    });
    receiver
}

fn say(message: &FromWorker) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, message)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn work(args: &Args, rank: &Receiver<ToWorker>) -> anyhow::Result<WorkerReport> {
    let ToWorker::Start(start) = rank.recv()? else {
        anyhow::bail!("a worker expects its rank first")
    };
    let mut ask = args.run.ask()?;
    (ask.begin, ask.end) = start.sizes.unwrap_or((ask.begin, ask.end));
    ask.traffic = start.traffic.clone().keep();
    let plan = Plan::new(&ask, start.local_ranks.ranks.into());
    let cases: Vec<&Case> = plan.cases().collect();
    let mut backend = open(args, &start, rank, &cases)?;
    backend.allocate(plan.largest(&|case| backend.supports(case).is_ok()))?;
    backend.register()?;
    let path = std::env::var_os("NCCL_DEBUG_FILE").context("a worker needs NCCL_DEBUG_FILE")?;
    let mut log = LogTail::open(Path::new(&path))
        .with_context(|| format!("NCCL's log {}", path.display()))?;
    let mut fold = Fold::default();
    let mut choices = Vec::new();
    for case in cases {
        let runs = backend.supports(case).is_ok();
        if runs {
            backend.fill(case, 1)?;
            backend.run(case, 1)?;
        }
        choices.push(latest(&mut log, &mut fold)?.filter(|_| runs));
    }
    backend.finish()?;
    latest(&mut log, &mut fold)?;
    let reason = fold.proof().reason.row().meaning.to_owned();
    Ok(WorkerReport {
        choices,
        seen: fold.connections().clone(),
        reason,
    })
}

/// Reads what is new in the log. The algorithm and protocol that it names last.
fn latest(log: &mut LogTail, fold: &mut Fold) -> anyhow::Result<Option<AlgorithmChoice>> {
    let mut new = Fold::default();
    log.lines(&mut |line| {
        fold.line(line);
        new.line(line);
    })?;
    Ok(new.proof().algorithms.pop())
}

fn open(
    args: &Args,
    start: &WorkerStart,
    rank: &Receiver<ToWorker>,
    cases: &[&Case],
) -> anyhow::Result<NcclBackend> {
    let nccl = Nccl::load(args.run.nccl_lib())?;
    let id = if start.local_ranks.first_rank == 0 {
        nccl.unique_id()?.to_vec()
    } else {
        Vec::new()
    };
    say(&FromWorker::Ready(id))?;
    let ToWorker::Id(id) = rank.recv()? else {
        anyhow::bail!("a worker expects the unique id second")
    };
    let id = id
        .try_into()
        .map_err(|_| anyhow::anyhow!("the unique id has a wrong length"))?;
    let (exec_options, _) = args.run.exec_options().with(&nccl);
    let mut backend = NcclBackend::open(
        nccl,
        id,
        &start.local_ranks,
        exec_options,
        cases.iter().copied(),
    )?;
    backend.reduce_float8(start.float8);
    Ok(backend)
}
