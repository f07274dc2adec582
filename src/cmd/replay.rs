//! `pxnbench replay WORKLOAD`: a training step.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::args::{replay::WorkloadArgs, sweep, tune::TuneArgs, values};
use crate::{
    backend::step::ComputeOptions,
    compare::folders::MeasuredRun,
    env::{self, Env},
    exit::{Code, Failure},
    experiment::{self, Limits, PresetNames, StepStart, TuneGrid},
    levels::{self, Preset},
    replay::ReplayMeasure,
    run::{
        backend::BackendChoice,
        environment,
        presets::Presets,
        replay::{self, ReplayRequest, WorkloadChoice},
        request::{FileRequest, Request},
        target::Target,
    },
    units::{Micros, significant},
    world::launch,
};

/// Blocks of a replay.
const BLOCKS: u32 = 4;

/// The most blocks of a tuning.
const MOST_BLOCKS_OF_A_TUNING: u32 = 100;

/// Replay the communication of a training step, overlapped with computation
///
/// Runs on the ranks that mpirun or srun started, as a sweep does. It runs the collectives of a
/// training step in their streams, several at the same time, beside kernels that imitate the
/// computation. It reports the time of the step, the communication that computation does not hide,
/// and the time of each collective alone and in the step. On a machine without a GPU it uses MPI on
/// host memory.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,

    #[command(flatten)]
    tune: TuneArgs,

    /// Print the workload as a file, and run nothing; of several processes, the first one prints
    #[arg(long, conflicts_with = "tune")]
    print: bool,

    /// Timed steps of each mode in a block
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = values::positive::<u32>,
        default_value = "10",
    )]
    steps: u32,

    /// Steps of each mode in a block before the timed ones
    #[arg(short = 'w', long, value_name = "N", value_parser = values::natural, default_value = "2")]
    warmup: u32,

    /// Number of blocks. A block runs every mode, in an order that is balanced over 4 blocks; with
    /// --tune, it replays every candidate [default: 4; with --tune up to 100]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    blocks: Option<u32>,

    /// Check the result of each kind of collective once before the first block; 0 for no check
    #[arg(short = 'c', long, value_name = "N", value_parser = values::natural, default_value = "1")]
    check: u32,

    /// Percentage of the GPU's multiprocessors that computation keeps busy
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "100")]
    multiprocessors: f64,

    /// Time of one kernel of the computation, in microseconds
    #[arg(long, value_name = "US", value_parser = values::positive::<u32>, default_value = "100")]
    kernel_us: u32,

    /// Seed of the order of the modes, and of the data that are checked
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Seconds without progress after which the job is ended
    #[arg(
        short = 'T',
        long,
        value_name = "SECONDS",
        value_parser = values::positive::<u32>,
        default_value = "600",
    )]
    timeout: u32,

    /// What runs the collectives: nccl (on GPUs) or host (MPI on host memory); auto uses host only
    /// if there is no NVIDIA device
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendChoice,

    /// PXN level: off conservative balanced aggressive default; variables that are already set take
    /// precedence
    #[arg(long, value_name = "LEVEL", value_parser = levels::level, conflicts_with = "tune")]
    level: Option<&'static Preset>,

    /// Channels that NCCL may use: none lean standard large; with --tune a list
    #[arg(long, value_name = "RESOURCES", value_parser = PresetNames::resources)]
    resources: Option<PresetNames>,

    /// Transport to ask NCCL for: auto nvlink pcie shm ib ethernet socket pxn
    #[arg(long, value_name = "NETWORK", value_parser = levels::network)]
    network: Option<&'static Preset>,

    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE")]
    nccl_lib: Option<PathBuf>,

    /// Folder for replay.json, steps.csv, collectives.csv and timeline.json [default:
    /// results/replay-WORKLOAD-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Report whether PXN was used, from NCCL's own log: columns pxn, transport, sends and
    /// relayed_sends of collectives.csv. Sets NCCL_DEBUG and NCCL_DEBUG_SUBSYS
    #[arg(long)]
    proof: bool,

    /// Print only the table, without the lines above it, and errors
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// Returns the variables to set before any thread or library starts.
    pub fn environment(&self, env: Env) -> Vec<(String, String)> {
        if self.tunes() {
            return Vec::new();
        }
        environment::to_set(&self.presets(), self.proof, env, &|| {
            crate::facts::rdma::ports(std::path::Path::new("/"))
        })
    }

    /// Returns whether this process starts the ranks of a tuning and is no rank itself.
    pub fn tunes(&self) -> bool {
        self.tune.tune
    }

    fn presets(&self) -> Presets {
        let resources = self.resources.as_ref().and_then(|names| names.0.first());
        Presets {
            level: self.level,
            resources: resources.and_then(|name| levels::resources(name).ok()),
            network: self.network,
        }
    }

    /// Returns what a launch needs to know to start ranks that replay this. The workload is read
    /// here, before ranks are started.
    ///
    /// # Errors
    ///
    /// Returns an error if the workload cannot be read.
    pub fn target(&self) -> anyhow::Result<Target> {
        if self.tunes() {
            let what = "--tune starts the ranks itself, with the command that --start names. Run \
                        pxnbench replay --tune by itself";
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let ReplayRequest { base, workload, .. } = self.request()?;
        Ok(Target::Replay {
            backend: base.backend,
            nccl_lib: base.nccl_lib,
            presets: base.presets,
            out: base.files.out,
            is_built_in: matches!(workload, WorkloadChoice::BuiltIn(..)),
            bucket_mb: workload.bucket_mb(),
        })
    }

    /// Returns the arguments with which every candidate of a tuning is replayed, without the
    /// options in which candidates differ.
    fn candidate_words(&self) -> Vec<OsString> {
        let mut words = vec![OsString::from("replay")];
        words.extend(self.workload.words());
        let percent = significant(100.0 * self.multiprocessors, 6);
        let numbers = [
            ("--steps", self.steps.to_string()),
            ("--warmup", self.warmup.to_string()),
            ("--check", self.check.to_string()),
            ("--multiprocessors", percent.to_string()),
            ("--kernel-us", self.kernel_us.to_string()),
            ("--seed", self.seed.to_string()),
            ("--timeout", self.timeout.to_string()),
            ("--backend", self.backend.name().to_owned()),
        ];
        for (name, value) in numbers {
            words.extend([name.into(), value.into()]);
        }
        if self.proof {
            words.push("--proof".into());
        }
        if let Some(network) = self.network {
            words.extend(["--network".into(), network.name.clone().into()]);
        }
        if let Some(file) = &self.nccl_lib {
            words.extend(["--nccl-lib".into(), file.into()]);
        }
        words
    }

    fn request(&self) -> anyhow::Result<ReplayRequest> {
        if self
            .resources
            .as_ref()
            .is_some_and(|names| names.0.len() > 1)
        {
            let what = "only --tune and pxnbench experiment compare several resources. Name one";
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let timeout = Duration::from_secs(self.timeout.into());
        let base = Request {
            backend: self.backend,
            nccl_lib: self.nccl_lib.clone(),
            presets: self.presets(),
            timeout,
            files: FileRequest {
                out: self.out.clone(),
                ..FileRequest::default()
            },
            proof: self.proof,
            quiet: self.quiet,
            ..sweep::default_request()
        };
        Ok(ReplayRequest {
            base,
            workload: self.workload.choice()?,
            compute: ComputeOptions {
                multiprocessors: self.multiprocessors,
                kernel: Micros(self.kernel_us.into()),
            },
            measure: ReplayMeasure {
                blocks: self.blocks.unwrap_or(BLOCKS),
                steps: self.steps,
                warmup: self.warmup,
                seed: self.seed,
                verify: self.check > 0,
                timeout,
            },
        })
    }
}

/// Tunes the workload.
fn tune(args: &Args) -> anyhow::Result<Code> {
    if launch::processes(&env::var).is_some_and(|launched| launched.count > 1) {
        // Several ranks would each start a tuning. This refuses it as within a launch.
        args.target()?;
    }
    let workload = args.workload.default_choice()?;
    let grid = TuneGrid {
        levels: args.tune.levels.clone(),
        resources: args.resources.clone(),
        buckets: args.workload.bucket_sizes().cloned(),
        default_bucket_mb: workload.bucket_mb(),
        may_use_nccl: args.backend != BackendChoice::Host,
    };
    let variants = grid.variants();
    let variants = variants.map_err(|why| Failure::on_all_ranks(Code::Usage, why))?;
    let start = StepStart::of(args.tune.start.as_deref(), args.out.clone(), "tune", "tune")?;
    experiment::tune(&experiment::Request {
        variants,
        measured: MeasuredRun::Replay,
        arguments: args.candidate_words(),
        continuation: start.continuation(args.tune.resume),
        start: start.command,
        folder: start.folder,
        limits: Limits {
            blocks: Some(args.blocks.unwrap_or(MOST_BLOCKS_OF_A_TUNING)),
            time: Some(args.tune.budget),
            precision: None,
        },
        seed: Some(args.seed),
        quiet: args.quiet,
    })
}

/// Replays the workload, prints it, or tunes it.
///
/// # Errors
///
/// Returns an error if the workload cannot be read, or if the replay fails on all ranks.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    if args.tunes() {
        return tune(args);
    }
    let request = args.request()?;
    if args.print && !launch::speaks(&env::var) {
        return Ok(Code::Fine);
    }
    if args.print {
        let ranks = args.workload.printed_ranks();
        let (workload, remarks) = request.workload.for_ranks(ranks)?;
        for remark in &remarks {
            say!("pxnbench: {remark}");
        }
        print_line!("{}", workload.to_toml().trim_end())?;
        return Ok(Code::Fine);
    }
    replay::run(&request)
}
