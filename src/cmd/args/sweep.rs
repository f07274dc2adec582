//! The arguments of a sweep, and the request that they stand for.

use std::{path::PathBuf, time::Duration};

use clap::{Args as _, FromArgMatches};

use super::{
    check::CheckArgs,
    nccl_tests::NcclTestsArgs,
    values::{self, Several},
};
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::DEFAULT,
    },
    env::Env,
    facts,
    levels::{self, Preset},
    run::{
        backend::BackendChoice,
        environment,
        presets::Presets,
        request::{FileRequest, Request, Timing},
    },
    stats::lateness::Late,
    sweep::{
        InjectedDelay, InjectedFault,
        plan::{Roots, SizeStep, SweepSpec},
    },
    units::Bytes,
};

/// nccl-tests' smallest and largest size if none is given.
const DEFAULT_SIZE: Bytes = Bytes(32 << 20);

/// The limit that `-T 0` stands for: nccl-tests has none then, but nothing here waits without one.
const NO_TIMEOUT_GIVEN: u32 = 600;

/// A sweep of collectives over sizes, by nccl-tests' flags.
#[derive(Clone, Debug, clap::Args)]
pub struct SweepArgs {
    #[arg(value_name = "COLLECTIVE", value_parser = values::collectives, help = collectives_help())]
    collectives: Vec<Several<Collective>>,

    /// Smallest size: a number with an optional K, M, G or T (powers of 1024) [default: 32M]
    #[arg(
        short = 'b',
        long,
        value_name = "SIZE",
        value_parser = values::size,
        help_heading = "Sweep",
    )]
    minbytes: Option<Bytes>,

    /// Largest size, inclusive [default: 32M, or the smallest size if that is larger]
    #[arg(
        short = 'e',
        long,
        value_name = "SIZE",
        value_parser = values::size,
        help_heading = "Sweep",
    )]
    maxbytes: Option<Bytes>,

    /// Add this to a size to get the next one
    #[arg(
        short = 'i',
        long,
        value_name = "SIZE",
        value_parser = values::size_or_none,
        default_value = "1M",
        help_heading = "Sweep",
    )]
    stepbytes: Bytes,

    /// Multiply a size by this to get the next one; 1 means -i is used instead
    #[arg(
        short = 'f',
        long,
        value_name = "FACTOR",
        value_parser = values::natural,
        default_value = "1",
        help_heading = "Sweep",
    )]
    stepfactor: u32,

    /// Element types: int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3
    /// f8e5m2, separated by commas, or all
    #[arg(
        short = 'd',
        long,
        value_name = "TYPE",
        value_parser = values::dtypes,
        default_value = "float",
        help_heading = "Sweep",
    )]
    datatype: Several<DType>,

    /// Reductions: sum prod max min avg mulsum, separated by commas, or all
    #[arg(
        short = 'o',
        long,
        value_name = "OP",
        value_parser = values::redops,
        default_value = "sum",
        help_heading = "Sweep",
    )]
    op: Several<RedOp>,

    /// Root rank; all (or -1) uses each in turn
    #[arg(short = 'r', long, value_name = "RANK", value_parser = values::roots, default_value = "0",
        allow_hyphen_values = true, help_heading = "Sweep")]
    root: Roots,

    /// Timed operations per case; 0 checks the data without timing
    #[arg(short = 'n', long, value_name = "N", value_parser = values::natural, default_value = "20",
        help_heading = "Measurement")]
    iters: u32,

    /// Untimed warm-up operations per size
    #[arg(
        short = 'w',
        long = "warmup_iters",
        value_name = "N",
        value_parser = values::natural,
        default_value = "1",
        help_heading = "Measurement",
    )]
    warmup: u32,

    /// Checks of the data after the timing; 0 for none
    #[arg(short = 'c', long, value_name = "N", value_parser = values::natural, default_value = "1",
        help_heading = "Measurement")]
    check: u32,

    /// Seconds without progress after which the job is ended, and the rank that is stuck is named:
    /// no operation ends, a start-up step takes longer, or a rank is silent; 0 means 600
    #[arg(
        short = 'T',
        long,
        value_name = "SECONDS",
        value_parser = values::natural,
        default_value = "600",
        help_heading = "Measurement",
    )]
    timeout: u32,

    /// Repeat the timed operations of each size until the 95 % interval of its mean time is within
    /// this percentage of it: at least 10 blocks of -n and 0.1 s, at most 10000 blocks or 60 s.
    /// Columns precision_pct and blocks
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = values::percentage,
        help_heading = "Measurement",
    )]
    precision: Option<f64>,

    /// Repeat the sweep until this time is over, such as 60s or 2h, and go on after wrong data. The
    /// table shows the first pass; samples.csv has the throughput of each second
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Measurement")]
    time: Option<Duration>,

    #[command(flatten)]
    nccl_tests: NcclTestsArgs,

    /// Print what would run, one line per case, and run nothing
    #[arg(long, help_heading = "Measurement")]
    list: bool,

    /// What runs the collectives: nccl (on GPUs), host (MPI on host memory) or model (times are
    /// computed); auto uses host only if there is no NVIDIA device at all
    #[arg(
        long,
        value_name = "BACKEND",
        default_value = "auto",
        help_heading = "Backend"
    )]
    backend: BackendChoice,

    /// PXN level: off conservative balanced aggressive default; variables that are already set take
    /// precedence
    #[arg(long, value_name = "LEVEL", value_parser = levels::level, help_heading = "Backend")]
    level: Option<&'static Preset>,

    /// Channels that NCCL may use: none lean standard large; separate from the level, which is
    /// about PXN only [default: none]
    #[arg(
        long,
        value_name = "RESOURCES",
        value_parser = levels::resources,
        help_heading = "Backend",
    )]
    resources: Option<&'static Preset>,

    /// Transport to ask NCCL for: auto nvlink pcie shm ib ethernet (RoCE) socket (TCP) pxn; one
    /// that cannot work here is refused [default: auto]
    #[arg(long, value_name = "NETWORK", value_parser = levels::network, help_heading = "Backend")]
    network: Option<&'static Preset>,

    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE", help_heading = "Backend")]
    nccl_lib: Option<PathBuf>,

    /// Plan for this many ranks (with --backend model or --list)
    #[arg(long, value_name = "N", value_parser = values::ranks, help_heading = "Backend")]
    ranks: Option<u32>,

    /// Folder for results.csv, results.json, ranks.csv and run.json [default: results/JOB-ID or
    /// results/COLLECTIVE-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,

    /// Number of this repetition, from 0, for the column `repeat`
    #[arg(
        long,
        value_name = "N",
        value_parser = values::natural,
        default_value = "0",
        help_heading = "Output",
    )]
    repeat: u32,

    /// Write the CSV to this file, or - for stdout; without --out there is no folder of results
    #[arg(long, value_name = "FILE", value_parser = values::output_file(), help_heading = "Output")]
    csv: Option<PathBuf>,

    /// Write the JSON to this file, or - for stdout, when the run ends; without --out there is no
    /// folder of results
    #[arg(long, value_name = "FILE", value_parser = values::output_file(), help_heading = "Output")]
    json: Option<PathBuf>,

    /// Continue an earlier run that left its files at the same place; without --out and --csv, the
    /// latest run with the same arguments apart from -T and --quiet. A restarted Slurm job does so
    /// by itself
    #[arg(long, help_heading = "Output")]
    resume: bool,

    /// Print the rows of the table, without the lines that begin with #, and errors; no progress
    /// and no notes. Files are complete, and remarks are in run.json
    #[arg(long, help_heading = "Output")]
    quiet: bool,

    /// Report what NCCL did, from its own log: columns pxn, transport, channels, algo and proto.
    /// Sets NCCL_DEBUG and NCCL_DEBUG_SUBSYS; a short run beforehand finds the algorithms
    #[arg(long, help_heading = "Output")]
    proof: bool,

    /// After the sweep, look for ranks that arrive late or end late: up to 8 sizes of each
    /// collective in which all ranks wait for each other, some seconds each. Writes stragglers.csv
    #[arg(long, help_heading = "Output")]
    stragglers: bool,

    /// If a rank is stuck, write what each thread does to stacks-RANK.txt, for every rank on the
    /// node of the rank that reports it. With eu-stack or gdb in PATH, this includes the stacks of
    /// calls
    #[arg(long, help_heading = "Output")]
    stacks: bool,

    /// Sample clocks, power, temperature and traffic of the GPUs at this interval (500ms if none is
    /// given): telemetry.csv, a summary in run.json, and a note on each case during which a GPU was
    /// throttled
    #[arg(
        long,
        value_name = "INTERVAL",
        value_parser = values::interval,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "500ms",
        help_heading = "Output",
    )]
    telemetry: Option<Duration>,

    /// Ask NCCL's own model for the time of each case before the sweep: column predicted_us. Needs
    /// NCCL 2.22, and a communicator for each case
    #[arg(long, help_heading = "Output")]
    predict: bool,

    #[command(flatten)]
    required: CheckArgs,

    /// Called by a name of nccl-tests: no folder of results unless one is requested
    #[arg(long, hide = true)]
    drop_in: bool,

    /// Flip one bit on this rank before its first check, to see that the check can fail: in the
    /// result (data), in the send buffer (send), or beside a buffer (before, after, before-send,
    /// after-send)
    #[arg(long, value_name = "RANK[:TARGET]", hide = true)]
    inject_fault: Option<InjectedFault>,

    /// Delay this rank before each operation of --stragglers, by a share of the operation or a
    /// time: RANK:20%, RANK:2ms@0.1
    #[arg(long, value_name = "RANK:TIME", hide = true)]
    inject_delay: Option<InjectedDelay>,

    /// As --inject-delay, but at the end of the operation, as a slow link would
    #[arg(
        long,
        value_name = "RANK:TIME",
        hide = true,
        conflicts_with = "inject_delay"
    )]
    inject_slow: Option<InjectedDelay>,

    /// Read the links of the GPUs below this folder, which has a copy of another machine's sys and
    /// what its NVML said as nvml.json
    #[arg(long, value_name = "DIR", hide = true)]
    links_root: Option<PathBuf>,
}

impl SweepArgs {
    /// Returns whether a collective is named.
    pub fn names_a_collective(&self) -> bool {
        !self.collectives.is_empty()
    }

    /// Returns the request that the arguments stand for.
    ///
    /// # Errors
    ///
    /// Returns an error if they contradict each other. Every rank has the same arguments and so the
    /// same error.
    pub fn request(&self) -> anyhow::Result<Request> {
        self.nccl_tests.check()?;
        let seconds = match self.timeout {
            0 => NO_TIMEOUT_GIVEN,
            seconds => seconds,
        };
        let request = Request {
            spec: self.spec(),
            backend: self.backend,
            nccl_lib: self.nccl_lib.clone(),
            presets: self.presets(),
            process: self.nccl_tests.process(),
            exec: self.nccl_tests.exec_options(),
            timing: Timing {
                iters: self.iters,
                warmup: self.warmup,
                checks: self.check,
                cycles: self.nccl_tests.cycles,
                average: self.nccl_tests.average,
                reports_issue: self.nccl_tests.report_cputime,
                precision: self.precision,
                repeat_for: self.time,
                skipped_iterations: self.nccl_tests.per_iter_skip,
            },
            timeout: Duration::from_secs(seconds.into()),
            files: FileRequest {
                out: self.out.clone(),
                csv: self.csv.clone(),
                json: self.json.clone(),
                nccl_tests_json: self.nccl_tests.nccl_tests_json.clone(),
                is_drop_in: self.drop_in,
                resume: self.resume,
            },
            table: self.nccl_tests.table_options(),
            repeat: self.repeat,
            proof: self.proof,
            telemetry: self.telemetry,
            quiet: self.quiet,
            list: self.list,
            planned_ranks: self.ranks,
            inject_fault: self.inject_fault,
            stragglers: self.stragglers,
            stacks: self.stacks,
            inject_delay: self.delay(),
            links_root: self.links_root.clone(),
            predict: self.predict,
            requirements: self.required.requirements(),
        };
        request.check()?;
        Ok(request)
    }

    fn delay(&self) -> Option<InjectedDelay> {
        let slow = self.inject_slow.as_ref();
        let slow = slow.map(|delay| delay.of_kind(Late::Transfer));
        slow.or_else(|| self.inject_delay.clone())
    }

    fn spec(&self) -> SweepSpec {
        let begin = self.minbytes.unwrap_or(DEFAULT_SIZE);
        let step = match self.stepfactor {
            0 | 1 => SizeStep::Add(self.stepbytes),
            factor => SizeStep::Factor(factor.into()),
        };
        let mut collectives = Vec::new();
        for several in &self.collectives {
            collectives.extend_from_slice(&several.0);
        }
        SweepSpec {
            collectives,
            begin,
            end: self.maxbytes.unwrap_or(DEFAULT_SIZE.max(begin)),
            step,
            dtypes: self.datatype.0.clone(),
            redops: self.op.0.clone(),
            roots: self.root,
            // Rank 0 reads another pattern from its environment.
            traffic: &DEFAULT,
        }
    }

    fn presets(&self) -> Presets {
        Presets {
            level: self.level,
            resources: self.resources,
            network: self.network,
        }
    }

    /// Returns the variables to set before any thread or library starts.
    pub fn environment(&self, env: Env) -> Vec<(String, String)> {
        environment::to_set(&self.presets(), self.proof, env, &|| {
            facts::rdma::ports(std::path::Path::new("/"))
        })
    }
}

/// Returns the request of a sweep with no other argument than a collective, for subcommands that
/// have some of its parts.
pub fn default_request() -> Request {
    let words = ["", Collective::ALL[0].name()];
    let matches = SweepArgs::augment_args(clap::Command::new("")).get_matches_from(words);
    let defaults = SweepArgs::from_arg_matches(&matches).ok();
    defaults
        .and_then(|args| args.request().ok())
        .expect("the defaults are valid")
}

fn collectives_help() -> String {
    format!(
        "Collectives, in the order they run: {}, or all",
        Collective::ALL.map(Collective::name).join(" ")
    )
}
