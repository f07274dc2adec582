//! What a caller asks of a run: plain data that is complete before any rank or device is known.

use std::{path::PathBuf, time::Duration};

pub use super::file_request::FileRequest;
use super::{backend::BackendChoice, presets::Presets, split::Split};
use crate::{
    backend::options::{Blocking, ExecOptions, Registration},
    check::Requirements,
    env::Env,
    record::{BackendKind, SweepMeta},
    sweep::{
        InjectedDelay, InjectedFault,
        measure::{Average, Measure},
        plan::{SizeStep, SweepSpec},
    },
};

/// A sweep to be run, listed or planned.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is measured.
    pub spec: SweepSpec,
    /// What runs the collectives.
    pub backend: BackendChoice,
    /// The libnccl to load, if not the usual one.
    pub nccl_lib: Option<PathBuf>,
    /// Level, resources and network.
    pub presets: Presets,
    /// Ranks of each process.
    pub process: ProcessLayout,
    /// How operations are run.
    pub exec: ExecOptions,
    /// How cases are timed and checked.
    pub timing: Timing,
    /// How long a single operation, or a step of the start, may take.
    pub timeout: Duration,
    /// Which files are written.
    pub files: FileRequest,
    /// What the table shows beside the usual columns.
    pub table: TableOptions,
    /// The number of this repetition, from 0.
    pub repeat: u32,
    /// Whether NCCL's log is read for what NCCL did.
    pub proof: bool,
    /// The interval at which GPUs are sampled, if they are.
    pub telemetry: Option<Duration>,
    /// Whether only rows and errors are printed.
    pub quiet: bool,
    /// Whether the cases are only listed.
    pub list: bool,
    /// The number of ranks to plan for, if it is not that of the running ones.
    pub planned_ranks: Option<u32>,
    /// Whether ranks that are late are looked for after the sweep.
    pub stragglers: bool,
    /// Whether what threads do is written down if a rank is stuck.
    pub stacks: bool,
    /// The fault that one process adds, to show that the check can fail.
    pub inject_fault: Option<InjectedFault>,
    /// The delay that shows that stragglers are found.
    pub inject_delay: Option<InjectedDelay>,
    /// The folder from which the links are read in place of this machine: its `/sys`, and
    /// `nvml.json` beside it.
    pub links_root: Option<PathBuf>,
    /// Whether NCCL is asked for the time of each case.
    pub predict: bool,
    /// What is required of the results.
    pub requirements: Requirements,
}

/// The ranks of a process: one per GPU.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLayout {
    /// Threads per process.
    pub threads: u32,
    /// GPUs per thread.
    pub gpus_per_thread: u32,
    /// Whether threads join the communicator in parallel.
    pub parallel_init: bool,
}

impl ProcessLayout {
    /// Returns the number of GPUs per process.
    pub fn gpus(&self) -> u32 {
        self.threads.saturating_mul(self.gpus_per_thread)
    }
}

/// The timing and checking of cases: nccl-tests' `-n -w -c -N -a -C -K`.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Timed iterations per case.
    pub iters: u32,
    /// Untimed operations per size.
    pub warmup: u32,
    /// Checks of the data per case.
    pub checks: u32,
    /// Passes over all sizes; 0 repeats until a signal.
    pub cycles: u32,
    /// Which of the ranks' times is reported.
    pub average: Average,
    /// Whether the time to issue an operation is reported instead of the time to its end.
    pub reports_issue: bool,
    /// How long the sweep is repeated, instead of [`Timing::cycles`].
    pub repeat_for: Option<Duration>,
    /// Half width of the interval of a mean time, in percent of it, up to which each size is timed.
    pub precision: Option<f64>,
    /// First iterations that the statistics of single iterations leave out.
    pub skipped_iterations: u32,
}

/// What the table shows beside the usual columns.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableOptions {
    /// The time of day at the end of each row.
    pub timestamps: bool,
    /// The use of GPU memory below the last table.
    pub memory: bool,
    /// Algorithm, protocol and channels of each row.
    pub tuning: bool,
}

impl Request {
    /// Returns whether this run continues an earlier one: because it is asked to, or because Slurm
    /// restarted the job.
    pub fn resumes(&self, env: Env) -> bool {
        // A row says neither which pass nor which communicator it belongs to.
        let is_single = self.timing.cycles == 1
            && self.timing.repeat_for.is_none()
            && Split::from_env(env).is_ok_and(|split| split.is_none());
        self.files.resume || (is_single && is_restarted(env))
    }

    /// Returns what must be the same on every rank, as text to compare.
    pub fn identity(&self) -> String {
        // Files, the library and the injected fault may differ from rank to rank.
        let shared = Request {
            files: FileRequest {
                is_drop_in: self.files.is_drop_in,
                resume: self.files.resume,
                ..FileRequest::default()
            },
            inject_fault: None,
            links_root: None,
            nccl_lib: None,
            ..self.clone()
        };
        format!("{shared:?}")
    }

    /// Returns the number of ranks whose cases are listed, if `processes` are running.
    pub fn listed_ranks(&self, processes: u32) -> u64 {
        let running = processes.saturating_mul(self.process.gpus());
        self.planned_ranks.unwrap_or(running).into()
    }

    /// Returns how `backend` runs operations: without GPUs, most options have no effect.
    pub fn exec_on(&self, backend: BackendKind) -> ExecOptions {
        if backend.uses_gpus() {
            return self.exec;
        }
        ExecOptions {
            aggregate: self.exec.aggregate,
            iteration_times: self.exec.iteration_times,
            ..ExecOptions::default()
        }
    }

    /// Returns how process `process` measures on `backend`, in the communicator `group` if there
    /// are several.
    pub fn measure(&self, backend: BackendKind, process: u32, group: Option<u32>) -> Measure {
        let exec = self.exec_on(backend);
        Measure {
            iters: self.timing.iters,
            warmup: self.timing.warmup,
            checks: self.timing.checks,
            cycles: self.timing.cycles,
            operations: exec.operations().saturating_mul(exec.rounds()),
            operations_at_once: exec.operations_at_once(self.timing.iters),
            average: self.timing.average,
            reports_issue: self.timing.reports_issue,
            precision: self.timing.precision,
            repeat_for: self.timing.repeat_for,
            skipped_iterations: self.timing.skipped_iterations,
            timeout: self.timeout,
            inject_fault: self
                .inject_fault
                .filter(|fault| fault.process == process)
                .map(|fault| fault.target),
            group,
            ranks_per_thread: if backend.uses_gpus() {
                self.process.gpus_per_thread
            } else {
                1
            },
            ..Measure::default()
        }
    }

    /// Returns the request as the run's files record it. `reports_ranks` and `least_busbw` come
    /// from nccl-tests' variables.
    pub fn sweep_meta(&self, reports_ranks: bool, least_busbw: Option<f64>) -> SweepMeta {
        let (step, step_is_factor) = match self.spec.step {
            SizeStep::Factor(factor) => (factor, true),
            SizeStep::Add(bytes) => (bytes.0, false),
        };
        SweepMeta {
            threads: self.process.threads,
            gpus: self.process.gpus_per_thread,
            begin: self.spec.begin,
            end: self.spec.end,
            step,
            step_is_factor,
            warmup: self.timing.warmup,
            iters: self.timing.iters,
            aggregate: self.exec.aggregate,
            checks: self.timing.checks,
            graph: self.exec.replays,
            unalign: self.exec.unalign,
            blocking: self.exec.blocking as u32,
            average: self.timing.average as u32,
            null_stream: self.exec.null_stream,
            registration: self.exec.registration as u32,
            cta_policy: self.exec.cta_policy,
            per_iter: self.exec.iteration_times,
            per_iter_skip: self.timing.skipped_iterations,
            precision: self.timing.precision,
            time_s: self.timing.repeat_for.map(|time| time.as_secs_f64()),
            parallel_init: self.process.parallel_init,
            reports_issue: self.timing.reports_issue,
            timestamps: self.table.timestamps,
            tuning: self.table.tuning,
            reports_ranks,
            reduced_to: None,
            least_busbw,
        }
    }

    /// Returns the flags in use that have no effect without a GPU.
    pub fn flags_for_gpus(&self) -> Vec<&'static str> {
        let flags = [
            ("-t", self.process.threads > 1),
            ("-g", self.process.gpus_per_thread > 1),
            ("-z", self.exec.blocking != Blocking::AtTheEnd),
            ("-y", self.exec.null_stream),
            ("-G", self.exec.replays > 0),
            ("-u", self.exec.unalign > 0),
            ("-R", self.exec.registration != Registration::None),
            ("-x", self.exec.cta_policy.is_some()),
            ("-M", self.table.memory),
        ];
        let in_use = flags.into_iter().filter(|(_, is_used)| *is_used);
        in_use.map(|(flag, _)| flag).collect()
    }
}

fn is_restarted(env: Env) -> bool {
    let restarts = env("SLURM_RESTART_COUNT").and_then(|count| count.trim().parse::<u64>().ok());
    restarts.is_some_and(|count| count > 0)
}
