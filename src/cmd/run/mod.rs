//! `pxnbench COLLECTIVE…`: the sweep. Here it is wired: ranks, facts, backend, plan, files, loop, end.

pub mod args;
mod clock;
mod job;
mod list;
mod log;
mod manner;
mod network;
pub(super) mod open;
mod output;
mod proof;
mod settings;
mod slowest;
mod split;
mod tally;
mod traffic;
mod transport;
mod tuning;

pub use args::Args;
use clock::Clock;
use job::Job;
use output::Output;
use proof::Watch;
use tally::Tally;

use crate::{
    backend::Backend,
    exit::{self, Code, Failure},
    facts, fault,
    output::live::Live,
    record::{MemoryUse, RunMeta},
    sweep::{
        self, Event,
        measure::Measure,
        plan::{Ask, Plan, Roots},
    },
    units::Bytes,
    world::{self, World, abort, deadline},
};

/// Runs the sweep, or lists it.
///
/// # Errors
/// An error that every rank has; one of this rank alone ends the job here.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let ask = args.ask()?;
    let mut clock = Clock::start();
    // It must be started before MPI is.
    let watch = Watch::start(args)?;
    let world = open::world(args)?;
    clock.mark("start, MPI");
    let end = in_world(args, &ask, watch, &*world, clock);
    let end = fault::settle(end, world.size());
    let _guard = deadline::watch("the other ranks at the end", args.timeout());
    world.finish();
    end
}

fn in_world(args: &Args, ask: &Ask, mut watch: Watch, world: &dyn World, mut clock: Clock) -> anyhow::Result<Code> {
    // What has no deadline of its own, such as a file system that does not answer, has this one.
    let _guard = deadline::watch("what comes between two cases", args.timeout());
    if args.list {
        traffic::settle(ask, args.listed_ranks(world.size()), world)?;
        return Ok(list::print(&planned(ask, args.listed_ranks(world.size()))?, args, world));
    }
    let job = Job::gather(args, world)?;
    traffic::settle(ask, (0..world.size()).map(|process| job.ranks(process)).max().unwrap_or(0), world)?;
    let plan = world::together(world, planned(ask, job.ranks(world.rank())))?;
    refuse_uneven_groups(&plan, &job, args, world)?;
    let run_id = output::run_name(args, ask, world);
    let meta = RunMeta { run_id, repeat: args.repeat, ..job.meta(args, ask, world) };
    let output = Output::open(args, meta, world)?;
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

/// The plan of a communicator of `ranks` ranks.
///
/// # Errors
/// Where there is no such root, or more than anybody wants.
fn planned(ask: &Ask, ranks: u64) -> anyhow::Result<Plan> {
    refuse_missing_root(ask, ranks)?;
    if !Plan::is_sane(ask, ranks) {
        let what =
            "these sizes, types, operations and roots are more than a million cases: did you mean -f 2 instead of -i?";
        return Err(Failure::everywhere(Code::Usage, what));
    }
    Ok(Plan::new(ask, ranks))
}

/// Communicators of several sizes have several numbers of roots, and would not end together; a worker knows of one only.
fn refuse_uneven_groups(plan: &Plan, job: &Job, args: &Args, world: &dyn World) -> anyhow::Result<()> {
    if job.group(world.rank()).is_none() {
        return Ok(());
    }
    if args.proof {
        let what = "--proof is for one communicator, and NCCL_TESTS_SPLIT makes several: leave one of them out";
        return Err(Failure::everywhere(Code::Usage, what));
    }
    let counts = world::gather(world, &plan.cases().count())?;
    if counts.iter().any(|count| *count != counts[0]) {
        let what =
            "NCCL_TESTS_SPLIT makes communicators of several sizes, which have several numbers of roots: say one root";
        return Err(Failure::everywhere(Code::Usage, what));
    }
    // All ranks of the job run a case or none does: they meet at its barriers.
    let waived: Vec<usize> =
        plan.cases().enumerate().filter(|(_, case)| case.impossible().is_some()).map(|(at, _)| at).collect();
    let all = world::gather(world, &waived)?;
    if all.iter().any(|other| *other != all[0]) {
        let what = "NCCL_TESTS_SPLIT makes communicators of several sizes, and a case is waived on some of them only, such as a \
             hypercube: leave it out, or split evenly";
        return Err(Failure::everywhere(Code::Usage, what));
    }
    Ok(())
}

fn refuse_missing_root(ask: &Ask, ranks: u64) -> anyhow::Result<()> {
    let is_rooted = ask.collectives.iter().any(|collective| collective.spec().rooted);
    match ask.roots {
        Roots::One(root) if is_rooted && u64::from(root) >= ranks => {
            let what =
                format!("there is no root {root} among {ranks} ranks: say -r with a rank below {ranks}, or -r all");
            Err(Failure::everywhere(Code::Usage, what))
        }
        _ => Ok(()),
    }
}

/// Opens the backend, fits the sizes to the memory, and runs the sweep.
fn measure(
    args: &Args,
    plan: Plan,
    job: &Job,
    world: &dyn World,
    output: &Output,
    watch: &mut Watch,
    clock: &mut Clock,
) -> anyhow::Result<(Code, String)> {
    let (ask, ranks) = (args.ask()?, job.ranks(world.rank()));
    let mut backend = {
        let _guard = deadline::watch("starting the backend on every rank", args.timeout());
        open::backend(args, &plan, job, world, output)?
    };
    clock.mark("backend");
    let capacity = sweep::measure::capacity(world, &*backend)?;
    let fitted = match capacity.filter(|capacity| *capacity < plan.largest()) {
        Some(capacity) => Some(fit(&ask, capacity, ranks)?),
        None => None,
    };
    let (plan, sizes) = match fitted {
        Some(smaller) => (Plan::new(&smaller, ranks), Some((smaller.begin, smaller.end))),
        None => (plan, None),
    };
    if let Some(capacity) = capacity.filter(|capacity| *capacity < plan.largest()) {
        // A matrix of an alltoallv does not shrink.
        let what = format!("there is room for two buffers of {capacity} only, and {} are needed", plan.largest());
        return Err(Failure::everywhere(Code::Usage, what));
    }
    let untold = watch.learn(args, &plan, sizes, job, world)?;
    clock.mark("algorithms");
    {
        let largest = plan.largest();
        let _guard = deadline::watch(format!("allocating two buffers of {largest}"), args.timeout());
        world::together(world, backend.allocate(largest))?;
    }
    clock.mark("memory");
    output.started(facts::process_age_s());
    output.reduced_to(sizes.map(|(_, end)| end));
    let (verdict, measured) = sweep_and_show(args, &plan, job, world, &mut *backend, output, watch)?;
    clock.mark_parts("sweep", &measured.spent);
    let _guard = deadline::watch("the backend's end", args.timeout());
    backend.finish()?;
    let hosts: Vec<&str> = job.processes.iter().map(|process| process.peer.host.as_str()).collect();
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

/// The sweep up to what fits. As in nccl-tests, a smallest size that does not fit becomes the largest that does.
fn fit(ask: &Ask, capacity: Bytes, ranks: u64) -> anyhow::Result<Ask> {
    // The largest element, 16 of them a rank: below that nothing is left of a sweep.
    if capacity.0 < 128 * ranks {
        let what = format!("there is room for two buffers of {capacity} only: something else holds the memory");
        return Err(Failure::everywhere(Code::NothingRan, what));
    }
    Ok(Ask { begin: ask.begin.min(capacity), end: capacity, ..ask.clone() })
}

fn sweep_and_show(
    args: &Args,
    plan: &Plan,
    job: &Job,
    world: &dyn World,
    backend: &mut dyn Backend,
    output: &Output,
    watch: &mut Watch,
) -> anyhow::Result<((Code, String), Measure)> {
    let mut measure = args.measure(world.rank(), job.group(world.rank()));
    let run = output.run();
    let earlier = output.earlier(world)?;
    let mut live = (world.rank() == 0).then(|| Live::new(plan.cases().count()));
    let mut tally = Tally::new(run.sweep.least_busbw);
    let stopped = sweep::run(plan, &earlier, &mut measure, world, backend, &mut |event| {
        match &event {
            Event::Finished(record) => {
                tally.add(record);
                let record = watch.complete(record, world)?;
                output.add(&record)?;
            }
            Event::Earlier(record) => tally.add(record),
            Event::Group(_) | Event::Started(_) => {}
        }
        live.as_mut().map_or(Ok(()), |live| live.on(&event, &run).map_err(no_stdout))
    })?;
    let memory = if args.reports_memory() { memory_use(backend, world)? } else { None };
    output.memory(memory);
    if let Some(live) = &mut live {
        live.close(&run, memory.as_ref()).map_err(no_stdout)?;
    }
    Ok((tally.verdict(stopped), measure))
}

/// What the GPU of process 0 that has most in use has it for; the same on every process.
fn memory_use(backend: &dyn Backend, world: &dyn World) -> anyhow::Result<Option<MemoryUse>> {
    let mine = world::together(world, backend.memory_use())?;
    world::broadcast(world, &mine)
}

fn no_stdout(error: std::io::Error) -> anyhow::Error {
    let what = format!("the table cannot be written to stdout: {error}; what was measured is in the files");
    Failure::new(Code::Internal, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{Collective, data::DType},
        sweep::plan::Step,
    };

    #[test]
    fn a_sweep_shrinks_to_what_fits_and_never_to_nothing() {
        let ask = Ask {
            collectives: vec![Collective::AllReduce],
            begin: Bytes(8 << 30),
            end: Bytes(64 << 30),
            step: Step::Factor(2),
            dtypes: vec![DType::Float],
            redops: Vec::new(),
            roots: Roots::One(0),
        };
        let sizes = |ask: Ask| ask.sizes().map(|size| size.0).collect::<Vec<_>>();
        assert_eq!(sizes(fit(&ask, Bytes(20 << 30), 2).expect("fits")), [8 << 30, 16 << 30]);
        assert_eq!(sizes(fit(&ask, Bytes(1 << 30), 2).expect("fits")), [1 << 30]);
        for nothing in [0, 100] {
            let error = fit(&ask, Bytes(nothing), 2).expect_err("no room");
            assert_eq!(exit::code_of(&error), Code::NothingRan);
        }
        assert_eq!(sizes(Ask { begin: Bytes(0), ..ask }), [] as [u64; 0], "no sweep without end from 0");
    }
}
