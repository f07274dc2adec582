//! A run: from a request to measured records. The parts are wired here: ranks, facts, backend, plan, files, loop, end.
//!
//! | step | module |
//! |---|---|
//! | what is requested | [`request`], `file_request`, `request_check`, [`presets`], [`backend`], [`environment`], [`target`] |
//! | what the job is | `context`, `meta`, `split`, `traffic`, `settings`, `network`, `peak` |
//! | what is measured | `planning`, `listing` |
//! | what is kept and shown | `progress`, `session`, `shared_run`, `wanted_files`, `earlier_run`, `log`, `outcome`, `over_time`, `sampler`, `phases` |
//! | what is found out beside it | `proof`, `connection_log`, `tuning`, `worker`, `transport`, `slow_node`, `stragglers`, `telemetry`, `node_logs`, `inquiries` |

pub mod backend;
mod connection_log;
mod context;
mod earlier_run;
pub mod environment;
mod file_request;
mod inquiries;
mod listing;
mod log;
mod meta;
mod name;
mod network;
mod node_logs;
mod open;
mod outcome;
mod over_time;
mod peak;
mod phases;
mod planning;
mod prediction;
#[cfg(feature = "nccl")]
pub mod preset_check;
pub mod presets;
mod progress;
mod proof;
pub mod replay;
mod replay_files;
mod replay_log;
mod replay_progress;
pub mod request;
mod request_check;
mod requirements;
mod sampler;
#[cfg(feature = "nccl")]
pub mod self_test;
mod session;
mod settings;
mod shared_run;
mod slow_node;
mod split;
mod stragglers;
pub mod target;
mod telemetry;
mod traffic;
mod transport;
mod tuning;
mod wanted_files;

#[cfg(feature = "nccl")]
pub mod worker;

#[cfg(not(feature = "nccl"))]
mod without_nccl;
#[cfg(not(feature = "nccl"))]
pub use self::without_nccl::{preset_check, self_test};

use self::{
    context::RunContext,
    node_logs::NodeLogs,
    peak::RunPeak,
    phases::PhaseTimer,
    planning::CutNote,
    prediction::Predictions,
    progress::{Progress, RecordDetails},
    proof::LogProof,
    request::Request,
    requirements::RunCheck,
    session::Session,
    telemetry::RunTelemetry,
};
use crate::{
    backend::Backend,
    env,
    exit::{self, Code},
    facts, fault,
    output::notes,
    record::MemoryUse,
    sweep::{self, measure::Measure, plan::Plan},
    world::{self, World, abort, cause, deadline, watch},
};

/// Runs the sweep, or lists its cases.
///
/// # Errors
///
/// Returns an error that every rank has. An error of this rank alone ends the job here.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    if request.quiet {
        notes::leave_out();
    }
    let mut timer = PhaseTimer::start();
    // It starts a process, which must happen before MPI starts.
    let proof = LogProof::start(request)?;
    let world = open::world(request)?;
    timer.mark("start, MPI");
    let guard = deadline::limit("the end of the run", request.timeout);
    let end = in_world(request, proof, &*world, timer);
    let end = fault::end_together(end, world.size());
    drop(guard);
    let _guard = deadline::limit("the shutdown of MPI on all ranks", request.timeout);
    world.finish();
    // Its files are complete. From here on, another run may write to their paths.
    abort::forget_last_words();
    end
}

/// Returns why a sweep refuses variables of this process, whatever is requested.
pub fn refused_variables() -> Vec<String> {
    let refused = [
        outcome::least_busbw().err(),
        split::Split::from_env(&env::var).err(),
    ];
    let refused = refused.into_iter().flatten();
    refused.map(|error| format!("{error:#}")).collect()
}

fn in_world(
    request: &Request,
    mut proof: LogProof,
    world: &dyn World,
    mut timer: PhaseTimer,
) -> anyhow::Result<Code> {
    // This covers what has no deadline of its own, such as a file system that does not answer.
    let _guard = deadline::limit("the work between two cases", request.timeout);
    if request.list {
        let ranks = request.listed_ranks(world.size());
        let spec = traffic::resolve(&request.spec, ranks, world)?;
        return listing::print(&planning::plan(&spec, ranks)?, request, world);
    }
    let context = RunContext::gather(request, world)?;
    stragglers::refuse_unknown_rank(&context)?;
    context.announce();
    let spec = traffic::resolve(&request.spec, context.most_ranks(), world)?;
    let plan = world::agree(world, planning::plan(&spec, context.ranks()))?;
    planning::refuse_uneven_groups(&plan, &context)?;
    let run = context.meta();
    // Before any file is opened: a run that is refused leaves none behind.
    let mut check = RunCheck::prepare(&context, &run, &plan)?;
    cause::set_system_logs(NodeLogs::of_run(&context));
    let session = Session::open(&context, run, spec.traffic)?;
    let folder = session.folder();
    if let Some(folder) = &folder {
        cause::share(folder);
    }
    inquiries::ask_ras(&context, folder.as_deref());
    if let Some(remark) = inquiries::write_stacks(&context, folder.as_deref()) {
        session.keep_remark(remark, world);
    }
    let peak = RunPeak::gather(&context)?;
    let peak_meta = peak.meta(&plan);
    if let Some(remark) = peak::remark(&peak_meta, context.backend) {
        session.keep_remark(remark, world);
    }
    session.change_run(|run| run.peak = peak_meta);
    timer.mark("facts, files");
    let end = measure(
        &context, &peak, &mut check, plan, &session, &mut proof, &mut timer,
    );
    session.change_run(|run| run.phases = timer.phases);
    finish(end, &session, world)
}

/// The remedy if a file lacks something.
const HOW_TO_COMPLETE: &str =
    "The table is complete. Once files can be written again, --resume measures what is missing";

/// Saves the files, says where they are, and returns the exit code.
fn finish(
    end: anyhow::Result<(Code, String)>,
    session: &Session,
    world: &dyn World,
) -> anyhow::Result<Code> {
    let (code, message) = match &end {
        Ok((code, message)) => (*code, message.clone()),
        Err(error) => (exit::code_of(error), format!("{error:#}")),
    };
    let saved = session.end(code, &message);
    if world.rank() == 0 {
        for sentence in &saved.missing {
            say!("pxnbench: {sentence}. {HOW_TO_COMPLETE}");
        }
    }
    let code = match &end {
        Ok(_) => world::broadcast(world, &saved.code)?,
        // The other ranks may not come this far.
        Err(_) => code,
    };
    abort::set_final_code(code);
    if world.rank() == 0 {
        if let Some(path) = session.main_path() {
            note!("pxnbench: results are in {}", path.display());
        }
        if end.is_ok() && !message.is_empty() {
            say!("pxnbench: {message}");
        }
    }
    end.map(|_| code)
}

/// Opens the backend, fits the sizes to the memory, and runs the sweep.
fn measure(
    context: &RunContext,
    peak: &RunPeak,
    check: &mut RunCheck,
    plan: Plan,
    session: &Session,
    proof: &mut LogProof,
    timer: &mut PhaseTimer,
) -> anyhow::Result<(Code, String)> {
    let (timeout, world) = (context.request.timeout, context.world);
    let mut backend = {
        let _guard = deadline::limit("starting the backend on every rank", timeout);
        open::backend(context, &plan, session)?
    };
    timer.mark("backend");
    let asked = plan.ask.clone();
    let (plan, sizes) = planning::fit(plan, context.ranks(), &*backend, world)?;
    let cut = CutNote::new(&plan, sizes, &asked);
    if let Some(cut) = &cut {
        session.keep_remark(cut.text.clone(), world);
    }
    let unknown_algorithms = proof.learn(context, &plan, sizes)?;
    timer.mark("algorithms");
    allocate(&mut *backend, &plan, context)?;
    timer.mark("memory");
    let (predictions, waived) = Predictions::ask(context, &plan, &mut *backend)?;
    if let Some(remark) = waived {
        session.keep_remark(remark, world);
    }
    if context.request.predict {
        timer.mark("predictions");
    }
    let telemetry = start_telemetry(context, session, timer)?;
    let startup_s = facts::process_age_s();
    session.change_run(|run| {
        run.startup_s = startup_s;
        run.sweep.reduced_to = sizes.map(|(_, end)| end);
    });
    let mut details = RecordDetails {
        proof,
        peak,
        predictions: &predictions,
        cut: cut.as_ref(),
        telemetry,
    };
    let (verdict, measured) =
        sweep_and_show(context, &plan, &mut *backend, session, &mut details, check)?;
    timer.mark_parts("sweep", &measured.spent);
    end_telemetry(&mut details.telemetry, session, world)?;
    let late = late_ranks(context, &plan, &mut *backend, session, &measured, timer)?;
    let _guard = deadline::limit("shutting down the backend", timeout);
    backend.finish()?;
    let mut remarks = Vec::from_iter(watch::remark());
    remarks.extend(late);
    remarks.extend(transport::remark(context)?);
    remarks.extend(unknown_algorithms);
    let proved = proof.verdict(session.folder().as_deref(), world)?;
    remarks.extend(proved.as_ref().map(|proved| proved.verdict.clone()));
    session.change_run(|run| run.proof = proved);
    for remark in remarks {
        session.keep_remark(remark, world);
    }
    timer.mark("end of backend");
    with_requirements(verdict, check, session, world)
}

/// Returns the remarks on late ranks: those of a search, if it is requested, or on a node that was slower than the others.
fn late_ranks(
    context: &RunContext,
    plan: &Plan,
    backend: &mut dyn Backend,
    session: &Session,
    measured: &Measure,
    timer: &mut PhaseTimer,
) -> anyhow::Result<Vec<String>> {
    if context.request.stragglers {
        let late = stragglers::search(context, plan, backend, session)?;
        timer.mark("stragglers");
        return Ok(late);
    }
    let pace = measured.pace.mean();
    let slow = slow_node::remark(pace, &context.placements, &context.hosts(), context.world)?;
    Ok(slow.into_iter().collect())
}

/// Judges the requirements on the results, and says what they miss. They decide on the exit code if nothing worse does.
fn with_requirements(
    verdict: (Code, String),
    check: &RunCheck,
    session: &Session,
    world: &dyn World,
) -> anyhow::Result<(Code, String)> {
    let Some((code, sentence, lines)) = check.judge(world)? else {
        return Ok(verdict);
    };
    if world.rank() == 0 {
        for line in &lines {
            say!("pxnbench: {line}");
        }
    }
    session.add_remarks(lines);
    Ok(match verdict {
        (Code::Fine, _) => (code, sentence),
        worse => worse,
    })
}

/// Starts the telemetry of the GPUs, if it is requested.
fn start_telemetry(
    context: &RunContext,
    session: &Session,
    timer: &mut PhaseTimer,
) -> anyhow::Result<RunTelemetry> {
    let (telemetry, remarks) = RunTelemetry::start(context, session)?;
    for remark in remarks {
        session.keep_remark(remark, context.world);
    }
    if context.request.telemetry.is_some() {
        timer.mark("telemetry");
    }
    Ok(telemetry)
}

/// Ends the telemetry, and says on process 0 what is not known; `run.json` has that beside the summary.
fn end_telemetry(
    telemetry: &mut RunTelemetry,
    session: &Session,
    world: &dyn World,
) -> anyhow::Result<()> {
    for gap in telemetry.end(world, session)? {
        note!("pxnbench: {gap}");
    }
    Ok(())
}

fn allocate(backend: &mut dyn Backend, plan: &Plan, context: &RunContext) -> anyhow::Result<()> {
    let largest = plan.largest(&|case| backend.supports(case).is_ok());
    let what = format!("allocating two buffers of {largest}");
    let _guard = deadline::limit(what, context.request.timeout);
    world::agree(context.world, backend.allocate(largest))?;
    world::agree(context.world, backend.register())
}

/// Runs the sweep, shows it and keeps its results. Returns how it ended, and what measuring it took.
fn sweep_and_show(
    context: &RunContext,
    plan: &Plan,
    backend: &mut dyn Backend,
    session: &Session,
    details: &mut RecordDetails,
    check: &mut RunCheck,
) -> anyhow::Result<((Code, String), Measure)> {
    let world = context.world;
    let mut measure = context
        .request
        .measure(context.backend, world.rank(), context.group());
    let earlier = session.earlier(plan, &measure, world)?;
    let mut progress = Progress::begin(context, plan, &measure, session)?;
    let stopped = sweep::run(plan, earlier, &mut measure, world, backend, &mut |event| {
        progress.on(event, details, check)
    })?;
    let memory = if context.request.table.memory {
        memory_use(backend, world)?
    } else {
        None
    };
    session.change_run(|run| run.memory = memory);
    let verdict = progress.end(&measure, stopped, memory)?;
    Ok((verdict, measure))
}

/// Returns, for each purpose, the memory used on the GPU that uses most for it, over all processes.
fn memory_use(backend: &dyn Backend, world: &dyn World) -> anyhow::Result<Option<MemoryUse>> {
    let own = world::agree(world, backend.memory_use())?;
    let mut most: Option<MemoryUse> = None;
    for used in world::all_gather(world, &own)?.into_iter().flatten() {
        let before = most.unwrap_or_default();
        most = Some(MemoryUse {
            initialization: before.initialization.max(used.initialization),
            buffers: before.buffers.max(used.buffers),
            collectives: before.collectives.max(used.collectives),
        });
    }
    Ok(most)
}
