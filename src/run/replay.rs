//! `pxnbench replay`: a training step on the ranks of this job, from a request to its files.

use std::path::{Path, PathBuf};

use super::{
    connection_log::{NOTHING_TO_PROVE, refuse_other_log_file},
    context::RunContext,
    inquiries, log, open,
    replay_files::ReplayFiles,
    replay_log::ReplayLog,
    replay_progress::{ReplayProgress, conclude, print},
    request::Request,
};
use crate::{
    backend::{
        self,
        step::{ComputeOptions, StepBackend, StepSetup},
    },
    exit::{Code, Failure},
    facts, fault,
    output::notes,
    record::{BackendKind, RunMeta},
    replay::{self, ReplayMeasure, files::Replayed, table},
    units::{counted, fnv1a},
    workload::{BUILT_IN, Step, StepWork, Workload, WorkloadOptions},
    world::{self, World, abort, deadline},
};

/// The workload that is requested.
#[derive(Clone, Debug)]
pub enum WorkloadChoice {
    /// One that was read from a file.
    File(Workload),
    /// One that is built in, by its name.
    BuiltIn(&'static str, WorkloadOptions),
    /// That of a trace of a training step.
    Trace(PathBuf),
}

impl WorkloadChoice {
    /// Returns the workload for so many ranks, and remarks on it.
    ///
    /// # Errors
    ///
    /// Returns an error if an option has a value that is not possible, or a trace cannot be read.
    pub fn for_ranks(&self, ranks: u64) -> anyhow::Result<(Workload, Vec<String>)> {
        match self {
            WorkloadChoice::File(workload) => Ok((workload.clone(), Vec::new())),
            WorkloadChoice::BuiltIn(name, options) => {
                let options = options.clone().for_ranks(name, ranks);
                let workload = Workload::built_in(name, &options).map_err(usage)?;
                Ok((workload, Vec::new()))
            }
            WorkloadChoice::Trace(path) => {
                let reading = Workload::read_trace(path, ranks).map_err(usage)?;
                let remarks = reading.unread.iter().map(|(what, times)| {
                    let times = counted(*times, "time");
                    format!("part of the trace is not replayed, {times}: {what}")
                });
                Ok((reading.workload, remarks.collect()))
            }
        }
    }
}

impl WorkloadChoice {
    /// Returns MiB of a bucket; `None` if `--bucket-mb` does not change the workload.
    pub fn bucket_mb(&self) -> Option<f64> {
        let WorkloadChoice::BuiltIn(name, options) = self else {
            return None;
        };
        let built_in = BUILT_IN.iter().find(|known| known.name == *name)?;
        built_in.has_buckets().then_some(options.bucket_mb)
    }

    /// Returns what tells the workload, which is `toml`, from others, whatever the size of its
    /// buckets.
    ///
    /// # Errors
    ///
    /// Returns an error as [`WorkloadChoice::for_ranks`] does.
    fn shape(&self, ranks: u64, toml: &str) -> anyhow::Result<String> {
        let usual = match self {
            WorkloadChoice::BuiltIn(name, options) if self.bucket_mb().is_some() => {
                let options = WorkloadOptions {
                    bucket_mb: WorkloadOptions::default().bucket_mb,
                    ..options.clone()
                };
                let (usual, _) = WorkloadChoice::BuiltIn(name, options).for_ranks(ranks)?;
                usual.to_toml()
            }
            _ => toml.to_owned(),
        };
        Ok(format!("{:016x}", fnv1a(usual.bytes())))
    }
}

/// Returns `error` as one that every rank has.
fn usage(error: anyhow::Error) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, format!("{error:#}"))
}

/// A replay that is requested.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// What a replay has in common with a sweep: backend, level, network, files, timeout.
    pub base: Request,
    /// The training step.
    pub workload: WorkloadChoice,
    /// How computation is imitated.
    pub compute: ComputeOptions,
    /// How it is measured.
    pub measure: ReplayMeasure,
}

/// Replays the step, prints the table, and writes the files.
///
/// # Errors
///
/// Returns an error that every rank has. An error of this rank alone ends the job here.
pub fn run(request: &ReplayRequest) -> anyhow::Result<Code> {
    let base = &request.base;
    if base.quiet {
        notes::leave_out();
    }
    if base.proof {
        refuse_other_log_file()?;
    }
    let world = open::world(base)?;
    let guard = deadline::limit("the end of the replay", base.timeout);
    let end = in_world(request, &*world);
    let end = fault::end_together(end, world.size());
    drop(guard);
    let _guard = deadline::limit("the shutdown of MPI on all ranks", base.timeout);
    world.finish();
    abort::forget_last_words();
    end
}

fn in_world(request: &ReplayRequest, world: &dyn World) -> anyhow::Result<Code> {
    let base = &request.base;
    let _guard = deadline::limit("the work between two blocks", base.timeout);
    let context = RunContext::gather(base, world)?;
    let ranks = world.size().into();
    let (workload, mut remarks) = world::agree(world, request.workload.for_ranks(ranks))?;
    let toml = workload.to_toml();
    refuse_other_workloads(request, &toml, world)?;
    if context.group().is_some() {
        let what = "NCCL_TESTS_SPLIT divides the ranks of a sweep, and a workload has groups of \
                    its own. Unset it";
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    context.announce();
    let step = workload.on(ranks).map_err(usage)?;
    refuse_impossible(&step)?;
    refuse_too_many(&step, &request.measure)?;
    remarks.extend(workload.remark(ranks).map_err(usage)?);
    if base.proof && !context.backend.runs_nccl() {
        remarks.push(NOTHING_TO_PROVE.into());
    }
    if world.rank() == 0 {
        for remark in &remarks {
            note!("pxnbench: {remark}");
        }
    }
    let mut run = context.meta();
    run.remarks.append(&mut remarks);
    let mut backend = {
        let _guard = deadline::limit("starting the backend on every rank", base.timeout);
        open_backend(request, &context, &step, &mut run)?
    };
    let shape = request.workload.shape(ranks, &toml)?;
    let mut replayed = Replayed {
        name: &workload.name,
        about: &workload.about,
        toml: &toml,
        shape: &shape,
        bucket_mb: request.workload.bucket_mb(),
        step: &step,
        compute: request.compute,
        run,
        proof: None,
    };
    let out = base.files.out.as_deref();
    let files = world::agree(world, ReplayFiles::open(out, &workload.name, world))?;
    replayed.run.run_id = files.run_id();
    keep_log_if_ended(&files);
    inquiries::ask_nccl(&context, files.is_writer.then_some(&*files.folder));
    if world.rank() == 0 && !base.quiet {
        print(&table::head(replayed.name, replayed.about, &step))?;
    }
    let mut progress = ReplayProgress {
        replayed,
        files: &files,
        log: ReplayLog::begin(&context, &step),
        world,
    };
    let result = replay::run(&step, &request.measure, world, &mut *backend, &mut progress)?;
    let _guard = deadline::limit("shutting down the backend", base.timeout);
    backend.finish()?;
    progress.end(&context, &result)?;
    conclude(&result)
}

/// Arranges that NCCL's log of this process is kept if the job is ended, as its finished blocks
/// are.
fn keep_log_if_ended(files: &ReplayFiles) {
    let folder = files.folder.clone();
    let save = move |code, _: &str, _| {
        if log::is_ours() {
            log::collect(Some(&folder));
        }
        code
    };
    abort::set_last_words("finished blocks", Box::new(save));
}

/// Refuses ranks that would replay different steps: each reads its workload itself.
fn refuse_other_workloads(
    request: &ReplayRequest,
    toml: &str,
    world: &dyn World,
) -> anyhow::Result<()> {
    let ReplayMeasure {
        blocks,
        steps,
        warmup,
        seed,
        verify,
        timeout,
    } = &request.measure;
    let ComputeOptions {
        multiprocessors,
        kernel,
    } = &request.compute;
    let seconds = timeout.as_secs_f64();
    let kernel = kernel.0;
    let proof = request.base.proof;
    let own = format!(
        "{toml}{blocks} {steps} {warmup} {seed} {verify} {seconds} {multiprocessors} {kernel} \
         {proof}"
    );
    let first = world::broadcast(world, &own)?;
    let all = world::all_gather(world, &(first == own))?;
    match all.iter().position(|is_same| !is_same) {
        None => Ok(()),
        Some(rank) => {
            let what = format!(
                "ranks 0 and {rank} would replay different workloads. Give all ranks the same \
                 file and options"
            );
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

/// Refuses a step with a collective that cannot run on so many ranks.
fn refuse_impossible(step: &Step) -> anyhow::Result<()> {
    for operation in &step.operations {
        if let StepWork::Collective { case, .. } = &operation.work
            && let Some(why) = case.impossible()
        {
            let what = format!("{}, {case}: {why}", operation.name);
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
    }
    Ok(())
}

/// The most operations that a mode runs in a block. All of them are timed, and on a GPU each has
/// two events.
const MOST_OPERATIONS: u64 = 2_000_000;

/// Refuses more operations in a block than times are kept for.
fn refuse_too_many(step: &Step, measure: &ReplayMeasure) -> anyhow::Result<()> {
    let operations = step.operations.len() as u64;
    let steps = u64::from(measure.steps.max(measure.warmup));
    if operations.max(1).saturating_mul(steps) <= MOST_OPERATIONS {
        return Ok(());
    }
    let what = format!(
        "{} of {} are more than the {MOST_OPERATIONS} operations that a block may have in a mode. \
         Choose fewer with -n and -w, and more --blocks",
        counted(steps, "step"),
        counted(operations, "operation"),
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Opens what runs the step.
fn open_backend(
    request: &ReplayRequest,
    context: &RunContext,
    step: &Step,
    run: &mut RunMeta,
) -> anyhow::Result<Box<dyn StepBackend>> {
    let world = context.world;
    let setup = StepSetup {
        step,
        rank: world.rank(),
        compute: request.compute,
    };
    match context.backend {
        BackendKind::Host => {
            world::agree(world, refuse_too_large(step, context))?;
            world::agree(world, backend::host::open_steps(&setup))
        }
        BackendKind::Nccl => {
            let library = open::library(context, run)?;
            let gpu = context.gpus[world.rank() as usize][0];
            library.open_steps(&setup, gpu, world)
        }
        BackendKind::Model => {
            let what =
                "a replay is measured, and --backend model only computes times. Use host or nccl";
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

/// Refuses a step whose buffers do not fit into the memory of this node; the system would end a
/// rank without a word. On GPUs, allocating them fails.
fn refuse_too_large(step: &Step, context: &RunContext) -> anyhow::Result<()> {
    let Some(available) = facts::memory::available(Path::new("/")) else {
        return Ok(());
    };
    // A tenth is left for MPI's own buffers and for what else runs here.
    let usable = available.0 / 10 * 9;
    let ranks = u64::from(context.processes_here());
    let buffers = (0..step.communicators.len()).map(|index| step.largest(index).0);
    let needed = buffers
        .chain([step.largest_copies().0])
        .fold(0, u64::saturating_add)
        .saturating_mul(2)
        .saturating_mul(ranks);
    if needed <= usable {
        return Ok(());
    }
    let what = format!(
        "the buffers of {} here need {} of memory, and {} are free. Use fewer ranks per node or \
         smaller sizes, for built-in workloads with --size-scale",
        counted(ranks, "rank"),
        gigabytes(needed),
        gigabytes(available.0),
    );
    Err(Failure::on_this_rank(Code::Usage, what))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}
