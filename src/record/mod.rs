//! What a run leaves behind: [`Record`], a measured case, and [`RunMeta`], what it was measured on.
//!
//! [`columns`] is the only list of columns; every format walks it. Derived numbers (bandwidths) are not stored, they
//! follow from the case and the time.

mod backend;
pub mod columns;
pub mod file;
pub mod iteration_stats;
pub mod totals;

use std::collections::BTreeMap;

use chrono::{DateTime, FixedOffset, SubsecRound};
use serde::{Deserialize, Serialize};

use crate::{
    collective::Case,
    exit::Code,
    slurm::SlurmJob,
    units::{Bytes, GBps, Micros},
};
pub use backend::BackendKind;
pub use iteration_stats::IterationStats;
pub use totals::TableTotals;

/// Version of `run.json` and `results.json`. It grows when a reader of the one before would misread the new one.
pub const FORMAT: u32 = 1;

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Measured, and every element was right.
    Ok,
    /// Measured, and elements were wrong.
    Wrong,
    /// Measured, not checked: not asked for, or not defined for this case.
    Unchecked,
    /// The time was computed by a model, not measured.
    Computed,
    /// Could not run here; the note says why.
    Waived,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 5] = [
        Status::Ok,
        Status::Wrong,
        Status::Unchecked,
        Status::Computed,
        Status::Waived,
    ];

    /// The word in the files.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Wrong => "wrong",
            Status::Unchecked => "unchecked",
            Status::Computed => "computed",
            Status::Waived => "waived",
        }
    }
}

/// One case and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The case.
    pub case: Case,
    /// How often all sizes were run through before.
    pub cycle: u32,
    /// When it began.
    pub started_at: DateTime<FixedOffset>,
    /// Timed operations.
    pub iters: u32,
    /// Time of one operation, mean over ranks if not said otherwise; `None` where it did not run.
    pub time: Option<Micros>,
    /// Time in which process 0 handed one operation to the device; `None` where that was not asked for.
    pub issue: Option<Micros>,
    /// Single iterations; `None` where they were not timed.
    pub iteration_times: Option<IterationStats>,
    /// Wrong elements over all ranks; `None` where nothing was checked.
    pub wrong: Option<u64>,
    /// How many processes found wrong elements: what nccl-tests' `# Out of bounds values` counts, by threads.
    pub failed_checks: u64,
    /// How it went.
    pub status: Status,
    /// Why, where that needs saying.
    pub note: String,
    /// What NCCL's log says of it.
    #[serde(default)]
    pub seen: NcclEvidence,
    /// What an alltoallv sends where, as [`Traffic::label`](crate::collective::traffic::Traffic::label) has it; empty for all
    /// else.
    #[serde(default)]
    pub pattern: String,
    /// The communicator that it is of, where there are several and this is the record of one.
    #[serde(default)]
    pub group: Option<u32>,
    /// What each communicator made of it, where there are several and this is the record of all.
    #[serde(default)]
    pub groups: Vec<GroupResult>,
}

/// What NCCL's log says of the connections that a case uses, and how NCCL ran it; empty where no log was asked for, or it does
/// not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclEvidence {
    /// Does a connection of its kind leave through the NIC of another GPU?
    pub pxn: Option<bool>,
    /// Transports, with `+` between.
    pub transport: String,
    /// Channels of the communicator for its kind.
    pub channels: Option<u32>,
    /// Algorithm, as NCCL names it.
    pub algo: String,
    /// Protocol, as NCCL names it.
    pub proto: String,
}

/// What one of several communicators made of a case, which all run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// nccl-tests' group: what its ranks have in common.
    pub group: u32,
    /// The case, with the ranks of this communicator.
    pub case: Case,
    /// Time of one operation, over its ranks.
    pub time: Micros,
    /// Time in which its first process handed one operation to the device, where that was clocked.
    pub issue: Option<Micros>,
    /// Its single iterations, where they were timed.
    pub iteration_times: Option<IterationStats>,
    /// Wrong elements over its ranks; `None` where nothing was checked.
    pub wrong: Option<u64>,
    /// Processes of it that found wrong elements.
    pub failed_checks: u64,
}

impl Record {
    /// Algorithm and bus bandwidth; `None` where it did not run.
    pub fn bandwidth(&self) -> Option<(GBps, GBps)> {
        self.time.map(|time| self.case.bandwidth(time))
    }

    /// As it is kept: a record for each communicator where there are several, else itself.
    pub fn kept(&self) -> Vec<Record> {
        if self.groups.is_empty() {
            return vec![self.clone()];
        }
        let of = |one: &GroupResult| {
            let status = match one.wrong {
                Some(0) => Status::Ok,
                Some(_) => Status::Wrong,
                None => self.status,
            };
            Record {
                case: one.case,
                time: Some(one.time),
                issue: one.issue,
                iteration_times: one.iteration_times.clone(),
                wrong: one.wrong,
                failed_checks: one.failed_checks,
                status,
                group: Some(one.group),
                groups: Vec::new(),
                ..self.clone()
            }
        };
        self.groups.iter().map(of).collect()
    }
}

/// Device memory of a process that is in use, on the device that has most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Since the communicator was made, before the buffers.
    pub initialization: u64,
    /// The buffers.
    pub buffers: u64,
    /// Since the first operation.
    pub collectives: u64,
}

/// What was asked for, as nccl-tests' table and its JSON repeat it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepMeta {
    /// Threads of a process.
    pub threads: u32,
    /// GPUs of a thread.
    pub gpus: u32,
    /// Smallest size.
    pub begin: Bytes,
    /// Largest size, before it was cut to the memory.
    pub end: Bytes,
    /// Factor or bytes from one size to the next.
    pub step: u64,
    /// Is `step` a factor?
    pub step_is_factor: bool,
    /// Untimed operations of each size before.
    pub warmup: u32,
    /// Timed iterations.
    pub iters: u32,
    /// Operations of an iteration.
    pub aggregate: u32,
    /// Checks of a case.
    pub checks: u32,
    /// How often a graph of the iterations is launched; 0 without one.
    pub graph: u32,
    /// Elements that the buffers are moved by.
    pub unalign: u64,
    /// nccl-tests' `-z`.
    pub blocking: u32,
    /// nccl-tests' `-a`: which of the ranks' times is shown.
    pub average: u32,
    /// Does everything run in the null stream?
    pub null_stream: bool,
    /// nccl-tests' `-R`.
    pub registration: u32,
    /// nccl-tests' `-x`; absent where NCCL decides.
    pub cta_policy: Option<i32>,
    /// Is each iteration timed?
    pub per_iter: bool,
    /// Iterations that statistics leave out.
    pub per_iter_skip: u32,
    /// Do threads join the communicator at once?
    pub parallel_init: bool,
    /// Does the table show the time in which operations are handed to the device?
    pub reports_issue: bool,
    /// Do rows end with the time of day?
    pub timestamps: bool,
    /// Is each row of an alltoallv followed by what each rank reached?
    pub reports_ranks: bool,
    /// The largest size that fits, where it is less than what was asked for.
    pub reduced_to: Option<Bytes>,
    /// The mean busbw that each table must reach nine tenths of, in GB/s.
    pub least_busbw: Option<f64>,
}

/// Who, where, when, with what: everything about a run that is the same for all its records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunMeta {
    /// Version of this file's format: [`FORMAT`].
    pub format: u32,
    /// Version of this program.
    pub pxnbench: String,
    /// Name of the run, the same in every file of it.
    pub run_id: String,
    /// When the run began.
    pub started_at: DateTime<FixedOffset>,
    /// When it ended; absent while it runs.
    pub ended_at: Option<DateTime<FixedOffset>>,
    /// Exit code, and the sentence where it is not 0; absent while it runs.
    pub end: Option<RunEnd>,
    /// The command line.
    pub command: Vec<String>,
    /// Backend.
    pub backend: BackendKind,
    /// Why this backend is used.
    pub backend_why: String,
    /// PXN level in force on every rank; `custom` where ranks differ, or it is no row of the table.
    pub level: String,
    /// Network asked for; `custom` where its settings are not all in force.
    pub network: String,
    /// Resources in force on every rank; `custom` as for the level.
    pub resources: String,
    /// The Slurm job; absent outside one.
    pub job: Option<SlurmJob>,
    /// Number of the job step; absent outside one.
    pub step: Option<u32>,
    /// Number of the repetition, from 0.
    pub repeat: u32,
    /// Nodes.
    pub nodes: u32,
    /// Ranks.
    pub ranks: u64,
    /// GPUs a process drives; 0 on host memory.
    pub gpus_per_process: u32,
    /// What was asked for.
    #[serde(default)]
    pub sweep: SweepMeta,
    /// Versions of what was used: MPI, NCCL, CUDA, driver. Absent where it was not used.
    pub versions: BTreeMap<String, String>,
    /// Settings in force on rank 0 that change what is measured, by name: only those known to hold no secret.
    pub environment: BTreeMap<String, String>,
    /// Those of `environment` that come from a file which NCCL reads, and the file.
    #[serde(default)]
    pub environment_files: BTreeMap<String, String>,
    /// What was said of settings: overridden, not the same on every rank, without effect, waived.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// What the GPU's memory was used for at the end, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUse>,
    /// Each rank.
    pub processes: Vec<ProcessMeta>,
    /// Seconds from the start of process 0 to its first case.
    pub startup_s: Option<f64>,
    /// Where the time of process 0 went, in order.
    pub phases: Vec<Phase>,
}

/// A part of a run and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunEnd {
    /// Number of the exit code.
    pub code: u8,
    /// Its name.
    pub name: Code,
    /// The sentence that was printed; empty where all was fine.
    pub message: String,
}

/// One rank of a run: a process, or a GPU of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessMeta {
    /// Its number among all ranks.
    pub rank: u32,
    /// Its communicator, where there are several; else 0.
    #[serde(default)]
    pub group: u32,
    /// Host name.
    pub host: String,
    /// Number of its node.
    pub node: u32,
    /// Order on its node.
    pub local_rank: u32,
    /// Process id.
    pub pid: u32,
    /// The device it drives.
    pub device: Device,
}

/// A GPU, or the memory of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Index in what the process can see.
    pub index: u32,
    /// PCI address as `0000:18:00`; `host memory` where there is none.
    pub bus: String,
    /// Model name.
    pub name: String,
    /// UUID; empty where there is none.
    pub uuid: String,
}

/// Now, to the second, with the offset of local time.
pub fn now() -> DateTime<FixedOffset> {
    chrono::Local::now().fixed_offset().trunc_subsecs(0)
}
