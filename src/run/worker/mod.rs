//! Worker processes. NCCL reads a variable once per process, so what is to be seen under another
//! setting is run by another process: each rank starts one worker per setting, before it touches
//! MPI or CUDA itself.
//!
//! A worker knows no MPI. `handle` is the rank's side: it passes on rank, GPU and NCCL's unique id.
//! Here is the worker's side.

pub(super) mod handle;
pub(super) mod message;

use std::{
    io::{BufRead, Write},
    path::Path,
    sync::mpsc::{self, Receiver},
    thread,
};

use anyhow::Context;

use self::message::{FromWorker, ToWorker, WorkerReport, WorkerStart};
use super::request::Request;
use crate::{
    backend::{Backend, nccl::NcclLibrary, options::NcclSetup},
    collective::Case,
    exit::Code,
    nccl_log::{AlgorithmChoice, Fold, tail::LogTail},
    sweep::plan::Plan,
    world::abort,
};

/// Runs each case once, for the rank that started this process.
///
/// # Errors
///
/// Returns an error if the rank cannot be told; every other failure is told to it.
pub fn run(request: anyhow::Result<Request>) -> anyhow::Result<Code> {
    let messages = listen();
    let report = request.and_then(|request| work(&request, &messages));
    let last = match report {
        Ok(report) => FromWorker::Ended(Box::new(report)),
        Err(error) => FromWorker::Failed(format!("{error:#}")),
    };
    send(&last)?;
    // After a failure, NCCL and CUDA might wait for a rank that is gone when they unload.
    abort::end_quietly(Code::Fine)
}

/// Receives what the rank sends. When its end of the pipe closes the rank is gone, and this process
/// ends.
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

fn send(message: &FromWorker) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, message)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn work(request: &Request, rank: &Receiver<ToWorker>) -> anyhow::Result<WorkerReport> {
    let ToWorker::Start(start) = rank.recv()? else {
        anyhow::bail!("a worker expects its rank first")
    };
    let mut spec = request.spec.clone();
    if let Some((begin, end)) = start.sizes {
        (spec.begin, spec.end) = (begin, end);
    }
    spec.traffic = start.traffic.clone().keep();
    let plan = Plan::new(&spec, start.local_ranks.ranks.into());
    let cases: Vec<&Case> = plan.cases().collect();
    let mut backend = open(request, &start, rank, &cases)?;
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
        let latest = read_new_lines(&mut log, &mut fold)?;
        choices.push(latest.filter(|_| runs));
    }
    backend.finish()?;
    read_new_lines(&mut log, &mut fold)?;
    Ok(WorkerReport {
        choices,
        seen: fold.connections().clone(),
        reason: fold.proof().reason_of_one_rank().to_owned(),
    })
}

/// Adds what is new in the log to `fold`, and returns the algorithm and protocol that it names
/// last.
fn read_new_lines(log: &mut LogTail, fold: &mut Fold) -> anyhow::Result<Option<AlgorithmChoice>> {
    let mut new = Fold::default();
    log.lines(&mut |line| {
        fold.line(line);
        new.line(line);
    })?;
    Ok(new.proof().algorithms.pop())
}

fn open(
    request: &Request,
    start: &WorkerStart,
    rank: &Receiver<ToWorker>,
    cases: &[&Case],
) -> anyhow::Result<Box<dyn Backend>> {
    let library = NcclLibrary::load(request.nccl_lib.as_deref())?;
    let own_id = if start.local_ranks.first_rank == 0 {
        library.unique_id()?
    } else {
        Vec::new()
    };
    send(&FromWorker::Ready(own_id))?;
    let ToWorker::Id(id) = rank.recv()? else {
        anyhow::bail!("a worker expects the unique id second")
    };
    let (exec_options, _) = library.limit_options(request.exec);
    let setup = NcclSetup {
        local_ranks: start.local_ranks.clone(),
        exec_options,
        gpu_sharers: 1,
        reduces_float8: start.float8,
    };
    library.open(id, &setup, cases.iter().copied())
}
