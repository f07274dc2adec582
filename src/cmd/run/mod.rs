//! `pxnbench COLLECTIVE…`: the sweep. Here it is wired: ranks, facts, backend, plan, files, loop, end.

pub mod args;
mod log;
mod network;
pub(super) mod open;
mod output;
mod settings;
mod slowest;
mod transport;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

pub use args::Args;
use output::Output;

use crate::{
    backend::Backend,
    cmd::choose::{self, Kind},
    collective::Case,
    exit::{self, Code, Failure},
    facts,
    output::{live::Live, table::Head},
    record::{self, Device, FORMAT, ProcessMeta, RunMeta},
    slurm,
    sweep::{
        self, Event,
        measure::{Measure, Pace},
        plan::{Ask, Plan, Roots},
    },
    units::Bytes,
    world::{self, World, abort, deadline, place, signal},
};

/// Runs the sweep, or lists it.
///
/// # Errors
/// An error that every rank has; one of this rank alone ends the job here.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let ask = args.ask()?;
    let mut clock = Clock::start();
    let world = open::world(args)?;
    clock.mark("start, MPI");
    let end = in_world(args, &ask, &*world, clock);
    if let Err(error) = &end
        && world.size() > 1
        && !exit::is_everywhere(error)
    {
        // The other ranks know nothing of this and may be waiting: unwinding would wait for them in MPI_Finalize.
        abort::job(exit::code_of(error), &format!("{error:#}"));
    }
    let _guard = deadline::watch("the other ranks at the end", args.timeout());
    world.finish();
    end
}

fn in_world(args: &Args, ask: &Ask, world: &dyn World, mut clock: Clock) -> anyhow::Result<Code> {
    // What has no deadline of its own, such as a file system that does not answer, has this one.
    let _guard = deadline::watch("what comes between two cases", args.timeout());
    let ranks = args.planned_ranks(world.size());
    refuse_missing_root(ask, ranks)?;
    if !Plan::is_sane(ask, ranks) {
        let what =
            "these sizes, types, operations and roots are more than a million cases: did you mean -f 2 instead of -i?";
        return Err(Failure::everywhere(Code::Usage, what));
    }
    let plan = Plan::new(ask, ranks);
    if args.list {
        return Ok(list(&plan, args, world));
    }
    let job = Job::gather(args, world)?;
    let run_id = output::run_name(args, ask, world);
    let meta = RunMeta { run_id, repeat: args.repeat, ..job.meta(ranks, world) };
    let output = Output::open(args, meta, world)?;
    clock.mark("facts, files");
    let end = measure(args, ask, plan, &job, world, &output, &mut clock);
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

/// Ranks that measure different things would end in wrong data or hang.
fn refuse_differing_arguments(args: &Args, world: &dyn World) -> anyhow::Result<()> {
    let mine = (env!("CARGO_PKG_VERSION").to_owned(), args.identity());
    let all = world::gather(world, &mine)?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let what =
                format!("ranks 0 and {rank} were started with other arguments or another version of this program");
            Err(Failure::everywhere(Code::Usage, what))
        }
    }
}

/// What this run runs on: what every process said, and what follows from it.
struct Job {
    kind: Kind,
    why: String,
    processes: Vec<facts::Process>,
    places: Vec<place::Place>,
    /// The GPU of each process, as an index into what it sees; empty on host memory.
    gpus: Vec<usize>,
    settled: settings::Settled,
}

impl Job {
    fn gather(args: &Args, world: &dyn World) -> anyhow::Result<Job> {
        let env = |name: &str| std::env::var(name).ok();
        let may_use_gpus = matches!(args.backend, choose::Asked::Auto | choose::Asked::Nccl);
        let _guard = deadline::watch("asking every rank what it runs on", args.timeout());
        refuse_differing_arguments(args, world)?;
        let processes = world::gather(world, &facts::process(&env, may_use_gpus))?;
        let (kind, why) = choose::choose(args.backend, &processes)?;
        let peers: Vec<place::Peer> = processes.iter().map(|process| process.peer.clone()).collect();
        let places = place::places(&peers);
        let gpus = match kind {
            Kind::Nccl => place::gpus(&peers, &places, processes.iter().all(|process| process.may_share_gpu))?,
            Kind::Host | Kind::Model => Vec::new(),
        };
        let settled = settings::settle(args, kind, place::node_count(&places), &processes)?;
        if world.rank() == 0 {
            say!("pxnbench: backend {kind}: {why}");
            if world.size() == 1 && kind != Kind::Model {
                say!("pxnbench: one rank sends nothing: start several with mpirun -np N or srun");
            }
            settled.remarks.iter().for_each(|sentence| say!("pxnbench: {sentence}"));
        }
        Ok(Job { kind, why, processes, places, gpus, settled })
    }

    /// How many ranks this rank's node has.
    #[cfg(feature = "mpi")]
    fn ranks_here(&self, rank: u32) -> u32 {
        let node = self.places[rank as usize].node;
        self.places.iter().filter(|place| place.node == node).count() as u32
    }

    /// How many processes of this process's machine have its GPU: more than one where nodes are virtual, or where NCCL is
    /// told to let ranks share.
    #[cfg(feature = "nccl")]
    fn sharers(&self, rank: usize) -> u32 {
        let gpu = |rank: usize| Some(&self.processes[rank].peer.gpus[*self.gpus.get(rank)?]);
        (0..self.gpus.len()).filter(|&other| gpu(other) == gpu(rank)).count() as u32
    }

    /// What is known of the run before its first case.
    fn meta(&self, ranks: u64, world: &dyn World) -> RunMeta {
        let env = |name: &str| std::env::var(name).ok();
        let gpus_per_process = u32::from(self.kind == Kind::Nccl);
        let (mut environment, mut environment_files) = (facts::environment(), BTreeMap::new());
        for (name, setting) in facts::settings().iter() {
            if let Some(file) = &setting.file {
                environment.insert(name.to_owned(), setting.value.clone());
                environment_files.insert(name.to_owned(), file.clone());
            }
        }
        // A job that cannot be read is none: the run does not depend on it.
        let job = slurm::Job::from(&env).ok().flatten();
        RunMeta {
            format: FORMAT,
            pxnbench: env!("CARGO_PKG_VERSION").into(),
            run_id: String::new(),
            started_at: record::now(),
            ended_at: None,
            end: None,
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            backend: self.kind.to_string(),
            backend_why: self.why.clone(),
            level: self.settled.level.clone(),
            network: self.settled.network.clone(),
            resources: self.settled.resources.clone(),
            step: job.as_ref().and_then(|job| job.step),
            job,
            repeat: 0,
            nodes: place::node_count(&self.places),
            ranks,
            gpus_per_process,
            versions: self.versions(world),
            environment,
            environment_files,
            remarks: self.settled.remarks.clone(),
            processes: self.process_metas(),
            startup_s: None,
            phases: Vec::new(),
        }
    }

    fn versions(&self, world: &dyn World) -> BTreeMap<String, String> {
        let mut versions = match self.kind {
            Kind::Nccl => self.processes[0].versions.clone(),
            Kind::Host | Kind::Model => BTreeMap::new(),
        };
        let library = world.library();
        if !library.is_empty() {
            versions.insert("mpi".into(), library);
        }
        versions
    }

    fn process_metas(&self) -> Vec<ProcessMeta> {
        let meta = |(rank, (process, place)): (usize, (&facts::Process, &place::Place))| ProcessMeta {
            rank: rank as u32,
            host: process.peer.host.clone(),
            node: place.node,
            local_rank: place.local_rank,
            pid: process.peer.pid,
            device: self.gpus.get(rank).map_or_else(
                || Device {
                    index: place.local_rank,
                    bus: if self.kind == Kind::Model { "computed" } else { "host memory" }.into(),
                    name: process.processor.clone(),
                    uuid: String::new(),
                },
                |&gpu| process.gpus[gpu].clone(),
            ),
        };
        self.processes.iter().zip(&self.places).enumerate().map(meta).collect()
    }
}

/// Opens the backend, fits the sizes to the memory, and runs the sweep.
fn measure(
    args: &Args,
    ask: &Ask,
    plan: Plan,
    job: &Job,
    world: &dyn World,
    output: &Output,
    clock: &mut Clock,
) -> anyhow::Result<(Code, String)> {
    let mut backend = {
        let _guard = deadline::watch("starting the backend on every rank", args.timeout());
        open::backend(args, &plan, job, world, output)?
    };
    clock.mark("backend");
    let capacity = sweep::measure::capacity(world, &*backend)?;
    let fitted = match capacity.filter(|capacity| *capacity < plan.largest()) {
        Some(capacity) => Some(fit(ask, capacity, args.planned_ranks(world.size()))?),
        None => None,
    };
    let (plan, reduced_to) = match fitted {
        Some(smaller) => (Plan::new(&smaller, args.planned_ranks(world.size())), Some(smaller.end)),
        None => (plan, None),
    };
    {
        let largest = plan.largest();
        let _guard = deadline::watch(format!("allocating two buffers of {largest}"), args.timeout());
        world::together(world, backend.allocate(largest))?;
    }
    clock.mark("memory");
    output.started(facts::process_age_s());
    let head = Head { ask, iters: args.iters, warmup: args.warmup, checks: args.check, reduced_to };
    let (verdict, pace) = sweep_and_show(args, &plan, head, world, &mut *backend, output)?;
    clock.mark("sweep");
    let _guard = deadline::watch("the backend's end", args.timeout());
    backend.finish()?;
    let hosts: Vec<&str> = job.processes.iter().map(|process| process.peer.host.as_str()).collect();
    let remarks = [slowest::remark(pace.mean(), &job.places, &hosts, world)?, transport::remark(args, world)?];
    for remark in remarks.into_iter().flatten() {
        if world.rank() == 0 {
            say!("pxnbench: {remark}");
        }
        output.remark(vec![remark]);
    }
    clock.mark("end of backend");
    Ok(verdict)
}

/// Where the time goes.
struct Clock {
    last: Instant,
    phases: Vec<record::Phase>,
}

impl Clock {
    /// Begins with the time that the process took to get here.
    fn start() -> Clock {
        let now = Instant::now();
        let age = Duration::from_secs_f64(facts::process_age_s().unwrap_or(0.0).max(0.0));
        Clock { last: now.checked_sub(age).unwrap_or(now), phases: Vec::new() }
    }

    /// What was done since the last mark is `name`.
    fn mark(&mut self, name: &str) {
        let seconds = (self.last.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        self.phases.push(record::Phase { name: name.into(), seconds });
        self.last = Instant::now();
    }
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
    head: Head,
    world: &dyn World,
    backend: &mut dyn Backend,
    output: &Output,
) -> anyhow::Result<((Code, String), Pace)> {
    let mut measure = Measure {
        iters: args.iters,
        warmup: args.warmup,
        checks: args.check,
        timeout: args.timeout(),
        inject_fault: args.inject_fault == Some(world.rank()),
        seed: 0,
        pace: Pace::default(),
    };
    let run = output.run();
    let earlier = output.earlier(world)?;
    let mut live = (world.rank() == 0).then(|| Live::new(head, plan.cases().count()));
    let mut tally = Tally::default();
    let stopped = sweep::run(plan, &earlier, &mut measure, world, backend, &mut |event| {
        match &event {
            Event::Finished(record) => {
                tally.add(record);
                output.add(record)?;
            }
            Event::Earlier(record) => tally.add(record),
            Event::Group(_) | Event::Started(_) => {}
        }
        live.as_mut().map_or(Ok(()), |live| live.on(&event, &run).map_err(no_stdout))
    })?;
    if let Some(live) = &mut live {
        live.close().map_err(no_stdout)?;
    }
    Ok((tally.verdict(stopped), measure.pace))
}

fn no_stdout(error: std::io::Error) -> anyhow::Error {
    let what = format!("the table cannot be written to stdout: {error}; what was measured is in the files");
    Failure::new(Code::Internal, what)
}

/// What the exit code depends on.
#[derive(Default)]
struct Tally {
    ran: u64,
    wrong: u64,
    waived: u64,
}

impl Tally {
    fn add(&mut self, record: &record::Record) {
        match record.status {
            record::Status::Waived => self.waived += 1,
            record::Status::Wrong => (self.ran, self.wrong) = (self.ran + 1, self.wrong + 1),
            _ => self.ran += 1,
        }
    }

    /// The exit code, and the sentence for what is not plain from the table.
    fn verdict(&self, stopped: bool) -> (Code, String) {
        let cases = |n: u64| if n == 1 { "1 case".to_owned() } else { format!("{n} cases") };
        match self {
            Tally { wrong, .. } if *wrong > 0 => (Code::WrongData, format!("wrong data in {}", cases(*wrong))),
            _ if stopped => {
                let by = signal::received().unwrap_or("a signal");
                (Code::Stopped, format!("stopped by {by} after {}, which are kept", cases(self.ran)))
            }
            Tally { ran: 0, waived, .. } => (Code::NothingRan, format!("nothing ran: waived {}", cases(*waived))),
            _ => (Code::Fine, String::new()),
        }
    }
}

/// Prints one line a case.
fn list(plan: &Plan, args: &Args, world: &dyn World) -> Code {
    if world.rank() == 0 {
        for case in plan.cases() {
            let waived = open::waived(args, case).map_or_else(String::new, |why| format!("  waived: {}", why.0));
            print_line!("{}{waived}", line(case));
        }
    }
    Code::Fine
}

fn line(case: &Case) -> String {
    format!(
        "{:14} {:>12} B {:>12} elements  {:8} {:5} root {:2}  {}",
        case.collective,
        case.size().0,
        case.counts.param,
        case.dtype.name(),
        case.redop_name(),
        case.root_number(),
        case.placement
    )
}
