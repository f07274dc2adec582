//! A run: from a request to measured records. The parts are wired here: ranks, facts, backend,
//! plan, files, loop, end.
//!
//! | step | module |
//! |---|---|
//! | what is requested | [`request`], `file_request`, `request_check`, [`presets`], [`backend`], [`environment`], [`target`] |
//! | what the job is | `context`, `meta`, `split`, `traffic`, `settings`, `network`, `peak` |
//! | what is measured | `planning`, `listing`, `measuring` |
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
mod measuring;
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
    context::RunContext, measuring::MeasuringRun, node_logs::NodeLogs, peak::RunPeak,
    phases::PhaseTimer, proof::LogProof, request::Request, requirements::RunCheck,
    session::Session,
};
use crate::{
    env,
    exit::{self, Code},
    fault,
    output::notes,
    world::{self, World, abort, cause, deadline},
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
    inquiries::ask_nccl(&context, folder.as_deref());
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
    let mut measuring = MeasuringRun {
        context: &context,
        session: &session,
        timer,
    };
    let end = measuring.measure(plan, &peak, &mut check, &mut proof);
    session.change_run(|run| run.phases = measuring.timer.phases);
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
