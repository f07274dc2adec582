//! The arguments of a sweep: what can be typed, and what it means before any rank or device is known.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{nccl_tests_flags::NcclTestsArgs, split::Split, traffic};
use crate::{
    backend::options::ExecOptions,
    cmd::{
        choose::BackendChoice,
        values::{self, Several},
    },
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::DEFAULT,
    },
    env,
    exit::{Code, Failure},
    levels::{self, Axis, Preset, ports::Port},
    output::files::OutputPaths,
    record::SweepMeta,
    sweep::{
        measure::Measure,
        plan::{Roots, SizeStep, SweepSpec},
    },
    units::Bytes,
};

/// nccl-tests' smallest and largest size where none is given.
const DEFAULT_SIZE: Bytes = Bytes(32 << 20);

/// A sweep of collectives over sizes, by nccl-tests' flags.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Collectives, in the order they run: all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter
    /// sendrecv hypercube alltoallv, or all
    #[arg(value_name = "COLLECTIVE", value_parser = values::collectives)]
    collectives: Vec<Several<Collective>>,

    /// Smallest size: a number with an optional K, M, G or T (powers of 1024) [default: 32M]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = values::size, help_heading = "Sweep")]
    minbytes: Option<Bytes>,

    /// Largest size, inclusive [default: 32M, or the smallest size if that is larger]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = values::size, help_heading = "Sweep")]
    maxbytes: Option<Bytes>,

    /// Add this to a size to get the next one
    #[arg(short = 'i', long, value_name = "SIZE", value_parser = values::size_or_none, default_value = "1M",
        help_heading = "Sweep")]
    stepbytes: Bytes,

    /// Multiply a size by this to get the next one; 1 means -i is used instead
    #[arg(short = 'f', long, value_name = "FACTOR", value_parser = values::natural, default_value = "1",
        help_heading = "Sweep")]
    stepfactor: u32,

    /// Element types: int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3
    /// f8e5m2, with commas between, or all
    #[arg(short = 'd', long, value_name = "TYPE", value_parser = values::dtypes, default_value = "float",
        help_heading = "Sweep")]
    datatype: Several<DType>,

    /// Reductions: sum prod max min avg mulsum, with commas between, or all
    #[arg(short = 'o', long, value_name = "OP", value_parser = values::redops, default_value = "sum",
        help_heading = "Sweep")]
    op: Several<RedOp>,

    /// Root rank; all (or -1) takes each in turn
    #[arg(short = 'r', long, value_name = "RANK", value_parser = values::roots, default_value = "0",
        allow_hyphen_values = true, help_heading = "Sweep")]
    root: Roots,

    /// Timed operations per case
    #[arg(short = 'n', long, value_name = "N", value_parser = values::positive::<u32>, default_value = "20",
        help_heading = "Measurement")]
    pub(super) iters: u32,

    /// Untimed warm-up operations per size
    #[arg(short = 'w', long = "warmup_iters", value_name = "N", value_parser = values::natural, default_value = "1",
        help_heading = "Measurement")]
    pub(super) warmup: u32,

    /// Checks of the data after the timing; 0 for none
    #[arg(short = 'c', long, value_name = "N", value_parser = values::natural, default_value = "1",
        help_heading = "Measurement")]
    pub(super) check: u32,

    /// Seconds that one operation, or one start-up step, may take before the job is aborted as hung; timed operations may
    /// each take ten times as long as the first one; 0 means 600
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = values::natural, default_value = "600",
        help_heading = "Measurement")]
    timeout: u32,

    #[command(flatten)]
    more: NcclTestsArgs,

    /// Print what would run, one line a case, and run nothing
    #[arg(long, help_heading = "Measurement")]
    pub(super) list: bool,

    /// What runs the collectives: nccl on GPUs, host with MPI on host memory, model computes times; auto takes host only
    /// where there is no NVIDIA device at all
    #[arg(
        long,
        value_name = "BACKEND",
        default_value = "auto",
        help_heading = "Backend"
    )]
    pub(super) backend: BackendChoice,

    /// PXN level: off conservative balanced aggressive default; variables that are already set take precedence
    #[arg(long, value_name = "LEVEL", value_parser = levels::level, help_heading = "Backend")]
    level: Option<&'static Preset>,

    /// Channels that NCCL may use: none lean standard large; separate from the level, which is about PXN only
    /// [default: none]
    #[arg(long, value_name = "RESOURCES", value_parser = levels::resources, help_heading = "Backend")]
    resources: Option<&'static Preset>,

    /// Transport to ask NCCL for: auto nvlink pcie shm ib ethernet (RoCE) socket (TCP) pxn; one that cannot work here is
    /// refused [default: auto]
    #[arg(long, value_name = "NETWORK", value_parser = levels::network, help_heading = "Backend")]
    network: Option<&'static Preset>,

    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE", help_heading = "Backend")]
    pub(super) nccl_lib: Option<PathBuf>,

    /// Plan for this many ranks (with --backend model or --list)
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, help_heading = "Backend")]
    ranks: Option<u32>,

    /// Folder for results.csv, results.json and run.json [default: results/JOB-ID or results/COLLECTIVE-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,

    /// Number of this repetition, from 0, for the column `repeat`
    #[arg(long, value_name = "N", value_parser = values::natural, default_value = "0", help_heading = "Output")]
    pub(super) repeat: u32,

    /// Write the CSV to this file; without --out no folder is made
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) csv: Option<PathBuf>,

    /// Write the JSON to this file when the run ends; without --out no folder is made
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,

    /// Continue an earlier run that left its files at the same place; a restarted Slurm job does so by itself
    #[arg(long, help_heading = "Output")]
    resume: bool,

    /// Prove from NCCL's own log what it did: columns pxn, transport, channels, algo and proto. Sets NCCL_DEBUG and
    /// NCCL_DEBUG_SUBSYS; a short run beforehand finds the algorithms
    #[arg(long, help_heading = "Output")]
    pub(super) proof: bool,

    /// Called by a name of nccl-tests: no folder of results unless one is asked for
    #[arg(long, hide = true)]
    drop_in: bool,

    /// Flip one element on this rank before its first check, to see that the check can fail
    #[arg(long, value_name = "RANK", value_parser = values::natural, hide = true)]
    pub(super) inject_fault: Option<u32>,
}

/// nccl-tests' `NCCL_TESTS_MIN_BW`: the mean busbw that is asked for, in GB/s.
///
/// # Errors
/// Where it is no number.
pub(super) fn least_busbw() -> anyhow::Result<Option<f64>> {
    let Ok(value) = std::env::var("NCCL_TESTS_MIN_BW") else {
        return Ok(None);
    };
    let what = || {
        Failure::on_all_ranks(
            Code::Usage,
            format!("NCCL_TESTS_MIN_BW={value} is not a bandwidth in GB/s (e.g. 300)"),
        )
    };
    value
        .trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .map(Some)
        .ok_or_else(what)
}

impl Args {
    /// What is measured.
    ///
    /// # Errors
    /// Where the arguments contradict each other. Every rank has the same arguments and so the same error.
    pub fn ask(&self) -> anyhow::Result<SweepSpec> {
        let usage =
            |what: &str| Failure::on_all_ranks(Code::Usage, format!("{what}; see pxnbench --help"));
        let collectives: Vec<Collective> = self
            .collectives
            .iter()
            .flat_map(|several| several.0.clone())
            .collect();
        if collectives.is_empty() {
            return Err(usage(
                "no collective given: name one, such as all_reduce, or all",
            ));
        }
        if self.drop_in && collectives.len() > 1 {
            return Err(usage(
                "called by a name of nccl-tests it runs that collective only: drop the other one",
            ));
        }
        self.more.check(self.iters)?;
        self.check_resume()?;
        let begin = self.minbytes.unwrap_or(DEFAULT_SIZE);
        let end = self.maxbytes.unwrap_or(DEFAULT_SIZE.max(begin));
        if begin > end {
            return Err(usage(&format!(
                "the smallest size -b {begin} is larger than the largest -e {end}"
            )));
        }
        if self.ranks.is_some() && self.backend != BackendChoice::Model && !self.list {
            return Err(usage(
                "--ranks plans for ranks that are not running: use it with --backend model or --list",
            ));
        }
        if let (Some(level), Some(network)) = (self.level, self.network)
            && (level.name.as_str(), network.name.as_str()) == ("off", "pxn")
        {
            return Err(usage(
                "--level off forbids the relays that --network pxn asks for: leave one of them out",
            ));
        }
        let step = match (self.stepfactor, self.stepbytes) {
            (0 | 1, Bytes(0)) => {
                return Err(usage(
                    "-i 0 never reaches a next size: use a larger step, or a factor with -f",
                ));
            }
            (0 | 1, bytes) => SizeStep::Add(bytes),
            (factor, _) => SizeStep::Factor(factor.into()),
        };
        let (dtypes, redops) = (self.datatype.0.clone(), self.op.0.clone());
        // The run reads another one from the environment of rank 0.
        let traffic = &DEFAULT;
        Ok(SweepSpec {
            collectives,
            begin,
            end,
            step,
            dtypes,
            redops,
            roots: self.root,
            traffic,
        })
    }

    /// Refuses to go on where a row of the CSV does not say which case it was.
    fn check_resume(&self) -> anyhow::Result<()> {
        // What cannot be read is told by all ranks together.
        let split = Split::from(&env::var).ok().flatten();
        let with = match self {
            _ if !self.resume => return Ok(()),
            _ if self.more.cycles != 1 => "-N: it resumes a single pass over the sizes",
            _ if split.is_some() => {
                "NCCL_TESTS_SPLIT: a case may have been measured on some communicators only"
            }
            _ => return Ok(()),
        };
        Err(Failure::on_all_ranks(
            Code::Usage,
            format!("--resume cannot be combined with {with}"),
        ))
    }

    /// The folder of the run's files, `default` unless --out, --csv or --json is given; `None` where only single
    /// files are asked for.
    pub fn folder(&self, default: &Path) -> Option<PathBuf> {
        self.paths(default).folder
    }

    /// The run's files; their folder is `default` unless --out, --csv or --json is given.
    pub(super) fn paths(&self, default: &Path) -> OutputPaths {
        let paths = OutputPaths::new(
            self.out.as_deref(),
            self.csv.as_deref(),
            self.json.as_deref(),
            default,
        );
        let is_asked = self.out.is_some() || self.csv.is_some() || self.json.is_some();
        let paths = if self.drop_in && !is_asked {
            OutputPaths::default()
        } else {
            paths
        };
        OutputPaths {
            nccl_tests_json: self.more.nccl_tests_json.clone(),
            ..paths
        }
    }

    /// GPUs of a process.
    pub fn gpus_per_process(&self) -> u32 {
        self.more.threads.saturating_mul(self.more.gpus)
    }

    /// How operations are run.
    pub fn exec_options(&self) -> ExecOptions {
        self.more.exec_options()
    }

    /// How cases are measured by process `process`, in the communicator `group` of several.
    pub(super) fn measure(&self, process: u32, group: Option<u32>) -> Measure {
        let exec_options = self.exec_options();
        Measure {
            iters: self.iters,
            warmup: self.warmup,
            checks: self.check,
            cycles: self.more.cycles,
            operations: exec_options
                .operations()
                .saturating_mul(exec_options.rounds()),
            average: self.more.average,
            reports_issue: self.more.report_cputime,
            skipped_laps: self.more.per_iter_skip,
            timeout: self.timeout(),
            inject_fault: self.inject_fault == Some(process),
            group,
            ..Measure::default()
        }
    }

    /// What was asked for, for the records.
    pub(super) fn sweep(&self, ask: &SweepSpec) -> SweepMeta {
        let (step, step_is_factor) = match ask.step {
            SizeStep::Factor(factor) => (factor, true),
            SizeStep::Add(bytes) => (bytes.0, false),
        };
        let exec_options = self.exec_options();
        SweepMeta {
            threads: self.more.threads,
            gpus: self.more.gpus,
            begin: ask.begin,
            end: ask.end,
            step,
            step_is_factor,
            warmup: self.warmup,
            iters: self.iters,
            aggregate: self.more.aggregate,
            checks: self.check,
            graph: self.more.graph,
            unalign: self.more.unalign.into(),
            blocking: self.more.blocking as u32,
            average: self.more.average as u32,
            null_stream: exec_options.null_stream,
            registration: exec_options.registration as u32,
            cta_policy: exec_options.cta_policy,
            per_iter: self.more.per_iter,
            per_iter_skip: self.more.per_iter_skip,
            parallel_init: self.more.parallel_init,
            reports_issue: self.more.report_cputime,
            timestamps: self.more.report_timestamps,
            reports_ranks: traffic::wants_summary().unwrap_or(false),
            reduced_to: None,
            least_busbw: least_busbw().ok().flatten(),
        }
    }

    /// What is to run the collectives.
    pub fn backend(&self) -> BackendChoice {
        self.backend
    }

    /// The libnccl that is asked for.
    pub fn nccl_lib(&self) -> Option<&Path> {
        self.nccl_lib.as_deref()
    }

    /// Does it only print what would run?
    pub fn lists(&self) -> bool {
        self.list
    }

    /// How long one operation may take.
    pub fn timeout(&self) -> Duration {
        // nccl-tests' 0 is no limit; nothing in here waits without one.
        Duration::from_secs(if self.timeout == 0 {
            600
        } else {
            self.timeout.into()
        })
    }

    /// What must be the same on every rank.
    pub fn identity(&self) -> String {
        // What is said of files and of the fault put in is for one rank.
        let mut shared = Args {
            out: None,
            csv: None,
            json: None,
            inject_fault: None,
            nccl_lib: None,
            ..self.clone()
        };
        shared.more.nccl_tests_json = None;
        format!("{shared:?}")
    }

    /// Does this run go on with an earlier one: asked for, or a restarted Slurm job?
    pub fn resumes(&self, env: env::Env) -> bool {
        let is_restarted = || {
            env("SLURM_RESTART_COUNT").is_some_and(|count| count.trim().parse().unwrap_or(0) > 0)
        };
        // A row does not say of which cycle or communicator it is.
        let is_one = self.more.cycles == 1 && Split::from(env).is_ok_and(|split| split.is_none());
        self.resume || (is_one && is_restarted())
    }

    /// The ranks that are planned for, where others than those here.
    pub(super) fn planned_ranks(&self) -> Option<u32> {
        self.ranks
    }

    /// Ranks that a list is of, where `world` processes are here.
    pub(super) fn listed_ranks(&self, world: u32) -> u64 {
        self.ranks
            .unwrap_or(world.saturating_mul(self.gpus_per_process()))
            .into()
    }

    /// What of the arguments means nothing without a GPU.
    pub(super) fn for_gpus_only(&self) -> Vec<&'static str> {
        self.more.for_gpus_only()
    }

    /// Threads of a process.
    #[cfg(feature = "nccl")]
    pub(super) fn threads(&self) -> u32 {
        self.more.threads
    }

    /// Do the threads join the communicator by themselves?
    #[cfg(feature = "nccl")]
    pub(super) fn parallel_init(&self) -> bool {
        self.more.parallel_init
    }

    /// Is what the GPU's memory is used for to be told?
    pub(super) fn reports_memory(&self) -> bool {
        self.more.reports_memory
    }

    /// The row that is asked for on an axis.
    pub(super) fn asked(&self, axis: Axis) -> Option<&'static Preset> {
        match axis {
            Axis::Level => self.level,
            Axis::Resources => self.resources,
            Axis::Network => self.network,
        }
    }

    /// Is this variable, which a row of `axis` sets, decided by what is asked for on an axis before it?
    pub(super) fn decided_before(&self, axis: Axis, name: &str) -> bool {
        let before = Axis::ALL.into_iter().take_while(|other| *other != axis);
        before
            .filter_map(|axis| self.asked(axis))
            .any(|row| row.sets(name))
    }

    /// What level, resources and network set in the environment `env` on a node with these ports, and where NCCL's log
    /// goes: not to stdout, where it would tear the table, but to a file of this process.
    pub fn environment(
        &self,
        env: env::Env,
        ports: &dyn Fn() -> Vec<Port>,
    ) -> Vec<(String, String)> {
        let ports = self.network.map_or_else(Vec::new, |_| ports());
        let mut set: Vec<(String, String)> = Vec::new();
        for row in Axis::ALL.into_iter().filter_map(|axis| self.asked(axis)) {
            let seen = |name: &str| {
                set.iter()
                    .find(|(n, _)| n == name)
                    .map(|(_, value)| value.clone())
                    .or_else(|| env(name))
            };
            let more = row.apply(&seen, &ports);
            set.extend(more);
        }
        // What became of a network that was asked for stands in NCCL's log of its connections.
        if self.proof {
            set.extend(super::proof::LOGGED.map(|(n, v)| (n.into(), v.into())));
        }
        let is_judged = !self.proof
            && self.network.is_some_and(|row| !row.set.is_empty())
            && env("NCCL_DEBUG").is_none();
        if is_judged {
            set.extend(
                [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV")]
                    .map(|(n, v)| (n.into(), v.into())),
            );
        }
        if (self.proof || is_judged || env("NCCL_DEBUG").is_some())
            && env("NCCL_DEBUG_FILE").is_none()
        {
            set.push((
                "NCCL_DEBUG_FILE".into(),
                super::log::waiting_place().to_string_lossy().into_owned(),
            ));
        }
        set
    }
}
