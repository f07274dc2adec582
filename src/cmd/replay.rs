//! `pxnbench replay WORKLOAD`: a training step.

use std::{path::PathBuf, time::Duration};

use super::args::{replay::WorkloadArgs, sweep, values};
use crate::{
    backend::step::ComputeOptions,
    env::Env,
    exit::Code,
    launch::Target,
    levels::{self, Preset},
    replay::ReplayMeasure,
    run::{
        backend::BackendChoice,
        environment,
        presets::Presets,
        replay::{self, ReplayRequest, WorkloadChoice},
        request::{FileRequest, Request},
    },
    units::Micros,
};

/// Replay the communication of a training step, overlapped with computation
///
/// Runs on the ranks that mpirun or srun started, like a sweep, but with the collectives of a training step: several at a time, in
/// streams, beside kernels that imitate the computation. Reports the time of the step, the communication that computation does
/// not hide, and each collective alone and in the step. On a machine without a GPU it runs over MPI on host memory.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Print the workload as a file, and run nothing
    #[arg(long)]
    print: bool,

    /// Timed steps of each mode in a block
    #[arg(short = 'n', long, value_name = "N", value_parser = values::positive::<u32>, default_value = "10")]
    steps: u32,

    /// Steps of each mode in a block that are not timed
    #[arg(short = 'w', long, value_name = "N", value_parser = values::natural, default_value = "2")]
    warmup: u32,

    /// Blocks: each runs every mode, in an order that is balanced over 4 blocks
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, default_value = "4")]
    blocks: u32,

    /// Check the data of each kind of collective once before the timing; 0 for no check
    #[arg(short = 'c', long, value_name = "N", value_parser = values::natural, default_value = "1")]
    check: u32,

    /// Share of the GPU's multiprocessors that computation keeps busy, in percent
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "100")]
    multiprocessors: f64,

    /// Time of one kernel of the computation, in microseconds
    #[arg(long, value_name = "US", value_parser = values::positive::<u32>, default_value = "50")]
    kernel_us: u32,

    /// Derive the order of the modes, and the data, from this number
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Seconds without progress after which the job is ended
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = values::positive::<u32>, default_value = "600")]
    timeout: u32,

    /// What runs the collectives: nccl (on GPUs) or host (MPI on host memory); auto uses host only if there is no NVIDIA device
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendChoice,

    /// PXN level: off conservative balanced aggressive default; variables that are already set take precedence
    #[arg(long, value_name = "LEVEL", value_parser = levels::level)]
    level: Option<&'static Preset>,

    /// Channels that NCCL may use: none lean standard large
    #[arg(long, value_name = "RESOURCES", value_parser = levels::resources)]
    resources: Option<&'static Preset>,

    /// Transport to ask NCCL for: auto nvlink pcie shm ib ethernet socket pxn
    #[arg(long, value_name = "NETWORK", value_parser = levels::network)]
    network: Option<&'static Preset>,

    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE")]
    nccl_lib: Option<PathBuf>,

    /// Folder for replay.json, steps.csv, collectives.csv and timeline.json [default: results/replay-WORKLOAD-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Report whether PXN was used, from NCCL's own log: columns pxn, transport, sends and relayed_sends of collectives.csv. Sets
    /// NCCL_DEBUG and NCCL_DEBUG_SUBSYS
    #[arg(long)]
    proof: bool,

    /// Print the table without the lines above it, and errors
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// Returns the variables to set before any thread or library starts.
    pub fn environment(&self, env: Env) -> Vec<(String, String)> {
        environment::to_set(&self.presets(), self.proof, env, &|| {
            crate::facts::rdma::ports(std::path::Path::new("/"))
        })
    }

    fn presets(&self) -> Presets {
        Presets {
            level: self.level,
            resources: self.resources,
            network: self.network,
        }
    }

    /// Returns what ranks are started for that replay this. The workload is read here, before anything is started.
    ///
    /// # Errors
    ///
    /// Returns an error if the workload cannot be read.
    pub fn target(&self) -> anyhow::Result<Target> {
        let workload = self.workload.choice()?;
        Ok(Target::Replay {
            backend: self.backend,
            nccl_lib: self.nccl_lib.clone(),
            presets: self.presets(),
            out: self.out.clone(),
            is_built_in: matches!(workload, WorkloadChoice::BuiltIn(..)),
            bucket_mb: workload.bucket_mb(),
        })
    }

    fn request(&self) -> anyhow::Result<ReplayRequest> {
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
                blocks: self.blocks,
                steps: self.steps,
                warmup: self.warmup,
                seed: self.seed,
                verify: self.check > 0,
                timeout,
            },
        })
    }
}

/// Replays the workload, or prints it.
///
/// # Errors
///
/// Returns an error if the workload cannot be read, or if the replay fails on all ranks.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let request = args.request()?;
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
