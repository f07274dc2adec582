//! `pxnbench COLLECTIVE…`: the sweep. Here it is wired: ranks, facts, backend, plan, files, loop, end.
//!
//! Names that could be taken for each other:
//!
//! - `settings`: level, resources and network of a run, asked for against in force, before NCCL starts;
//! - `network`: can the `--network` that is asked for work in this job, before NCCL starts;
//! - `transport`: did NCCL take that network, from its log, after the run;
//! - `traffic`: the pattern of an alltoallv, from rank 0's environment;
//! - `split`: several communicators at the same time, `NCCL_TESTS_SPLIT`;
//! - `exec_options`: nccl-tests' flags for how a case is run, timed and shown.

pub mod args;
mod clock;
mod job;
mod list;
mod log;
mod nccl_tests_flags;
mod network;
pub(super) mod open;
mod output;
mod planned;
mod proof;
mod settings;
mod slowest;
mod split;
mod tally;
mod traffic;
mod transport;
mod tuning;

pub use args::Args;
use clock::PhaseTimer;
use job::RunContext;
use output::Session;
use proof::LogProof;
use tally::SweepOutcome;

use crate::{
    backend::Backend,
    exit::{self, Code, Failure},
    facts, fault,
    output::live::Live,
    record::{MemoryUse, RunMeta},
    sweep::{
        self, Event,
        measure::Measure,
        plan::{Plan, SweepSpec},
    },
    world::{self, World, abort, deadline},
};

/// Runs the sweep, or lists it.
///
/// # Errors
/// An error that every rank has; one of this rank alone ends the job here.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let ask = args.ask()?;
    let mut clock = PhaseTimer::start();
    // It must be started before MPI is.
    let watch = LogProof::start(args)?;
    let world = open::world(args)?;
    clock.mark("start, MPI");
    let end = in_world(args, ask, watch, &*world, clock);
    let end = fault::settle(end, world.size());
    let _guard = deadline::watch("the other ranks at the end", args.timeout());
    world.finish();
    end
}

fn in_world(
    args: &Args,
    ask: SweepSpec,
    mut watch: LogProof,
    world: &dyn World,
    mut clock: PhaseTimer,
) -> anyhow::Result<Code> {
    // What has no deadline of its own, such as a file system that does not answer, has this one.
    let _guard = deadline::watch("what comes between two cases", args.timeout());
    if args.list {
        let ranks = args.listed_ranks(world.size());
        let ask = traffic::settled(ask, ranks, world)?;
        return list::print(&planned::plan(&ask, ranks)?, args, world);
    }
    let job = RunContext::gather(args, world)?;
    let most_ranks = (0..world.size())
        .map(|process| job.ranks(process))
        .max()
        .unwrap_or(0);
    let ask = traffic::settled(ask, most_ranks, world)?;
    let plan = world::agree(world, planned::plan(&ask, job.ranks(world.rank())))?;
    planned::refuse_uneven_groups(&plan, &job, args, world)?;
    let run_id = output::run_name(args, &ask, world);
    let meta = RunMeta {
        run_id,
        repeat: args.repeat,
        ..job.meta(args, &ask, world)
    };
    let output = Session::open(args, &ask, meta, world)?;
    clock.mark("facts, files");
    let end = measure(args, plan, &job, world, &output, &mut watch, &mut clock);
    output.phases(clock.phases);
    let (code, message) = match &end {
        Ok((code, message)) => (*code, message.clone()),
        Err(error) => (exit::code_of(error), format!("{error:#}")),
    };
    let saved = output.end(code, &message);
    if end.is_ok() {
        saved?;
    }
    abort::settle(code);
    if world.rank() == 0 {
        if let Some(path) = output.main_path() {
            say!("pxnbench: results are in {}", path.display());
        }
        if end.is_ok() && !message.is_empty() {
            say!("pxnbench: {message}");
        }
    }
    end.map(|(code, _)| code)
}

/// Opens the backend, fits the sizes to the memory, and runs the sweep.
fn measure(
    args: &Args,
    plan: Plan,
    job: &RunContext,
    world: &dyn World,
    output: &Session,
    watch: &mut LogProof,
    clock: &mut PhaseTimer,
) -> anyhow::Result<(Code, String)> {
    let mut backend = {
        let _guard = deadline::watch("starting the backend on every rank", args.timeout());
        open::backend(args, &plan, job, world, output)?
    };
    clock.mark("backend");
    let (plan, sizes) = planned::fitted(plan, job.ranks(world.rank()), &*backend, world)?;
    let untold = watch.learn(args, &plan, sizes, job, world)?;
    clock.mark("algorithms");
    {
        let largest = plan.largest(&|case| backend.supports(case).is_ok());
        let _guard = deadline::watch(
            format!("allocating two buffers of {largest}"),
            args.timeout(),
        );
        world::agree(world, backend.allocate(largest))?;
        world::agree(world, backend.register())?;
    }
    clock.mark("memory");
    output.started(facts::process_age_s());
    output.reduced_to(sizes.map(|(_, end)| end));
    let (verdict, measured) =
        sweep_and_show(args, &plan, job, world, &mut *backend, output, watch)?;
    clock.mark_parts("sweep", &measured.spent);
    let _guard = deadline::watch("the backend's end", args.timeout());
    backend.finish()?;
    let hosts: Vec<&str> = job
        .processes
        .iter()
        .map(|process| process.peer.host.as_str())
        .collect();
    let remarks = [
        slowest::remark(measured.pace.mean(), &job.places, &hosts, world)?,
        transport::remark(args, world)?,
        untold,
        watch.verdict(output.folder().as_deref(), world)?,
    ];
    for remark in remarks.into_iter().flatten() {
        if world.rank() == 0 {
            say!("pxnbench: {remark}");
        }
        output.remark(vec![remark]);
    }
    clock.mark("end of backend");
    Ok(verdict)
}

fn sweep_and_show(
    args: &Args,
    plan: &Plan,
    job: &RunContext,
    world: &dyn World,
    backend: &mut dyn Backend,
    output: &Session,
    watch: &mut LogProof,
) -> anyhow::Result<((Code, String), Measure)> {
    let mut measure = args.measure(world.rank(), job.group(world.rank()));
    let run = output.run();
    let earlier = output.earlier(plan, &measure, world)?;
    let cases = plan.cases().count() * measure.cycles as usize;
    let mut live = (world.rank() == 0).then(|| Live::new(cases));
    if live.is_some() {
        output.begin_table(cases as u64);
    }
    // What rank 0 shows decides.
    let mut tally = SweepOutcome::new(world::broadcast(world, &run.sweep.least_busbw)?);
    let stopped = sweep::run(plan, earlier, &mut measure, world, backend, &mut |event| {
        match &event {
            Event::Finished(record) => {
                tally.add(record);
                let record = watch.complete(record, world)?;
                output.add(&record)?;
            }
            Event::Earlier(record) => tally.add(record),
            Event::Series(_) | Event::Started(_) => {}
        }
        live.as_mut()
            .map_or(Ok(()), |live| live.on(&event, &run).map_err(no_stdout))?;
        if matches!(event, Event::Finished(_) | Event::Earlier(_)) {
            output.count_case();
        }
        Ok(())
    })?;
    let memory = if args.reports_memory() {
        memory_use(backend, world)?
    } else {
        None
    };
    output.memory(memory);
    let extent = output.end_table();
    if let (Some(live), Some(extent), true) = (&mut live, extent, stopped) {
        live.unfinished(&run, extent, &tally::stopped_by())
            .map_err(no_stdout)?;
    }
    if let Some(live) = &mut live {
        live.close(&run, memory.as_ref()).map_err(no_stdout)?;
    }
    Ok((tally.verdict(stopped), measure))
}

/// What is used for each purpose on the GPU that has most of it for that, over all processes.
fn memory_use(backend: &dyn Backend, world: &dyn World) -> anyhow::Result<Option<MemoryUse>> {
    let mine = world::agree(world, backend.memory_use())?;
    let all = world::all_gather(world, &mine)?;
    Ok(all.into_iter().flatten().reduce(|a, b| MemoryUse {
        initialization: a.initialization.max(b.initialization),
        buffers: a.buffers.max(b.buffers),
        collectives: a.collectives.max(b.collectives),
    }))
}

fn no_stdout(error: std::io::Error) -> anyhow::Error {
    let what = format!(
        "the table cannot be written to stdout: {error}; what was measured is in the files that were asked for"
    );
    Failure::on_this_rank(Code::Internal, what)
}
