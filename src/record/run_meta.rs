//! [`RunMeta`]: what is the same for all records of a run. `run.json` holds it.

use std::collections::BTreeMap;

use chrono::{DateTime, FixedOffset};
use serde::{Deserialize, Serialize};

use super::{
    backend::BackendKind, over_time::OverTime, peak::PeakMeta, straggler::StragglerReport,
    telemetry::TelemetryMeta,
};
use crate::{
    exit::Code,
    slurm::{SlurmJob, hosts::compress},
    units::Bytes,
};

/// Version of `run.json` and `results.json`. It grows when a reader of the previous version would
/// misread the new one.
pub const FORMAT: u32 = 1;

/// Everything about a run that is the same for all its records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunMeta {
    /// Version of this file's format: [`FORMAT`].
    pub format: u32,
    /// Version of this program.
    pub pxnbench: String,
    /// Name of the run, the same in every file of it.
    pub run_id: String,
    /// Start of the run; of its first part if it was continued.
    pub started_at: DateTime<FixedOffset>,
    /// When it was continued, in order; absent if it was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued_at: Vec<DateTime<FixedOffset>>,
    /// End of the run; absent while it runs.
    pub ended_at: Option<DateTime<FixedOffset>>,
    /// Exit code, and the message if it is not 0; absent while the run is in progress.
    pub end: Option<RunEnd>,
    /// The command line.
    pub command: Vec<String>,
    /// Whether the program was called by a name of nccl-tests' programs.
    #[serde(default)]
    pub drop_in: bool,
    /// Backend.
    pub backend: BackendKind,
    /// Why this backend is used.
    pub backend_why: String,
    /// PXN level in force on every rank; `custom` if ranks differ or the settings match no level.
    pub level: String,
    /// Requested network; `custom` if not all of its settings are in force.
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
    /// GPUs per process; 0 on host memory.
    pub gpus_per_process: u32,
    /// Hosts of the ranks, as Slurm abbreviates a list; empty if times are computed.
    #[serde(default)]
    pub hosts: String,
    /// Models of the GPUs, or of the processors if the data are in host memory, joined by `+`;
    /// empty if times are computed.
    #[serde(default)]
    pub device: String,
    /// The requested sweep.
    #[serde(default)]
    pub sweep: SweepMeta,
    /// Versions of the libraries in use: MPI, NCCL, CUDA, driver. A library that is not used is
    /// absent.
    pub versions: BTreeMap<String, String>,
    /// Settings in force on rank 0 that change what is measured, by name: only those known to hold
    /// no secret.
    pub environment: BTreeMap<String, String>,
    /// The settings in `environment` that come from a file which NCCL reads, each with that file.
    #[serde(default)]
    pub environment_files: BTreeMap<String, String>,
    /// Remarks about settings: overridden, different between ranks, without effect, waived.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The most busbw that the links allow, and how it follows from them.
    #[serde(default)]
    pub peak: PeakMeta,
    /// Use of GPU memory at the end; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUse>,
    /// Telemetry of the GPUs; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryMeta>,
    /// Ranks that are late; absent unless they were looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stragglers: Option<StragglerReport>,
    /// What NCCL's log shows of PXN over the whole run; absent without `--proof`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofMeta>,
    /// How a sweep went that was repeated for a time; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// Each rank.
    pub processes: Vec<ProcessMeta>,
    /// Seconds from the start of process 0 to its first case.
    pub startup_s: Option<f64>,
    /// Phases of process 0, in order.
    pub phases: Vec<Phase>,
}

impl RunMeta {
    /// Returns what the cases of this run are measured on. Earlier versions listed hosts and
    /// devices by rank only.
    pub fn measured_on(&self) -> MeasuredOn {
        let (mut hosts, mut device) = (self.hosts.clone(), self.device.clone());
        if self.backend.measures() && hosts.is_empty() {
            hosts = hosts_of(&self.processes);
            device = models_of(&self.processes);
        }
        MeasuredOn {
            hosts,
            device,
            nccl_version: self.version("nccl"),
            mpi_version: self.version("mpi"),
        }
    }

    fn version(&self, library: &str) -> String {
        self.versions.get(library).cloned().unwrap_or_default()
    }
}

/// Returns the hosts of ranks, each once, as Slurm abbreviates a list.
pub fn hosts_of(ranks: &[ProcessMeta]) -> String {
    let mut hosts: Vec<&str> = Vec::new();
    for rank in ranks {
        if !hosts.contains(&rank.host.as_str()) {
            hosts.push(&rank.host);
        }
    }
    compress(&hosts)
}

/// Returns the models of what ranks drive, each once, joined by `+`.
pub fn models_of(ranks: &[ProcessMeta]) -> String {
    let mut models: Vec<&str> = Vec::new();
    for rank in ranks {
        if !models.contains(&rank.device.name.as_str()) {
            models.push(&rank.device.name);
        }
    }
    models.join("+")
}

/// The machine and the libraries that a case was measured on. What is unknown, or does not apply,
/// is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredOn {
    /// Hosts of the ranks, as Slurm abbreviates a list.
    pub hosts: String,
    /// Models of the GPUs, or of the processors, joined by `+`.
    pub device: String,
    /// Version of NCCL.
    pub nccl_version: String,
    /// Version of MPI.
    pub mpi_version: String,
}

impl MeasuredOn {
    /// Returns whether times of both may stand in one file: same device and libraries, as far as
    /// both are known. Hosts may differ.
    pub fn is_alike(&self, other: &MeasuredOn) -> bool {
        !differs(&self.device, &other.device)
            && !differs(&self.nccl_version, &other.nccl_version)
            && !differs(&self.mpi_version, &other.mpi_version)
    }
}

/// Returns whether two values are known to differ; an empty one is unknown.
pub fn differs(a: &str, b: &str) -> bool {
    !a.is_empty() && !b.is_empty() && a != b
}

/// Keys of `sweep` in run.json that change what a time means, and their flags.
pub const SWEEP_FLAGS: [(&str, &str); 14] = [
    ("threads", "-t"),
    ("gpus", "-g"),
    ("aggregate", "-m"),
    ("graph", "-G"),
    ("unalign", "-u"),
    ("blocking", "-z"),
    ("per_iter", "-I"),
    ("per_iter_skip", "-K"),
    ("average", "-a"),
    ("null_stream", "-y"),
    ("registration", "-R"),
    ("cta_policy", "-x"),
    ("precision", "--precision"),
    ("time_s", "--time"),
];

/// A sweep as requested, as nccl-tests' table and its JSON repeat it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepMeta {
    /// Threads per process.
    pub threads: u32,
    /// GPUs per thread.
    pub gpus: u32,
    /// Smallest size.
    pub begin: Bytes,
    /// Largest size, before it was reduced to fit the memory.
    pub end: Bytes,
    /// Factor or number of bytes from one size to the next.
    pub step: u64,
    /// Whether `step` is a factor.
    pub step_is_factor: bool,
    /// Untimed operations per size before the timed ones.
    pub warmup: u32,
    /// Timed iterations.
    pub iters: u32,
    /// Operations per iteration.
    pub aggregate: u32,
    /// Checks per case.
    pub checks: u32,
    /// Launches of a CUDA graph of the iterations; 0 without a graph.
    pub graph: u32,
    /// Elements by which the buffers are displaced.
    pub unalign: u64,
    /// nccl-tests' `-z`.
    pub blocking: u32,
    /// nccl-tests' `-a`: which of the ranks' times is reported.
    pub average: u32,
    /// Whether everything runs in the null stream.
    pub null_stream: bool,
    /// nccl-tests' `-R`.
    pub registration: u32,
    /// nccl-tests' `-x`; absent if NCCL decides.
    pub cta_policy: Option<i32>,
    /// Whether each iteration is timed.
    pub per_iter: bool,
    /// First iterations that the statistics exclude.
    pub per_iter_skip: u32,
    /// Half width of the 95 % interval, in percent of the mean time, up to which each size is
    /// timed; absent for a single block.
    pub precision: Option<f64>,
    /// Seconds for which the sweep is repeated; absent for as many passes as requested.
    pub time_s: Option<f64>,
    /// Whether threads join the communicator at the same time.
    pub parallel_init: bool,
    /// Whether the table shows the time to issue operations to the device.
    pub reports_issue: bool,
    /// Whether rows end with the time of day.
    pub timestamps: bool,
    /// Whether rows end with algorithm, protocol and channels.
    pub tuning: bool,
    /// Whether each row of an alltoallv is followed by the bandwidths of each rank.
    pub reports_ranks: bool,
    /// The largest size that fits, if that is less than requested.
    pub reduced_to: Option<Bytes>,
    /// Mean busbw in GB/s of which each table must reach nine tenths.
    pub least_busbw: Option<f64>,
}

impl SweepMeta {
    /// Returns the sweep as `backend` runs it: without GPUs, many of nccl-tests' flags have no
    /// effect.
    pub fn as_run_by(&self, backend: BackendKind) -> SweepMeta {
        if backend.uses_gpus() {
            return self.clone();
        }
        SweepMeta {
            threads: 1,
            gpus: 1,
            graph: 0,
            unalign: 0,
            blocking: 0,
            null_stream: false,
            registration: 0,
            cta_policy: None,
            parallel_init: false,
            ..self.clone()
        }
    }
}

/// What NCCL's log shows of PXN over a whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofMeta {
    /// Whether PXN was used; absent if the log does not tell.
    pub pxn_used: Option<bool>,
    /// The verdict in words: the counts, the reason, and where the evidence is.
    pub verdict: String,
}

/// The end of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunEnd {
    /// Number of the exit code.
    pub code: u8,
    /// Name of the exit code.
    pub name: Code,
    /// The message that was printed; empty if the run succeeded.
    pub message: String,
    /// The process that failed first; absent if all have the same error, or it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedProcess>,
}

/// The process that failed first, which ended the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedProcess {
    /// Number of the process.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// When it failed, by the clock of its host.
    pub at: DateTime<FixedOffset>,
}

/// A phase of a run and its duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name.
    pub name: String,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Device memory used by a process, on the device with the highest use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Bytes allocated from the creation of the communicator up to the buffers.
    pub initialization: u64,
    /// Bytes of the buffers.
    pub buffers: u64,
    /// Bytes allocated since the first operation.
    pub collectives: u64,
}

/// One rank of a run: a process, or one GPU of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessMeta {
    /// Number among all ranks.
    pub rank: u32,
    /// Communicator, if there are several; else 0.
    #[serde(default)]
    pub group: u32,
    /// Host name.
    pub host: String,
    /// Number of the node.
    pub node: u32,
    /// Order on the node.
    pub local_rank: u32,
    /// Process id.
    pub pid: u32,
    /// The device it drives.
    pub device: Device,
}

/// A GPU, or the memory of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Index among the devices visible to the process.
    pub index: u32,
    /// PCI address as `0000:18:00`, or [`BackendKind::device_label`] without a GPU.
    pub bus: String,
    /// Model name.
    pub name: String,
    /// UUID; empty without a GPU.
    pub uuid: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of `sweep` that do not change what a time means, or that are compared case by case.
    const OTHERS: [&str; 14] = [
        "begin",
        "end",
        "step",
        "step_is_factor",
        "warmup",
        "iters",
        "checks",
        "parallel_init",
        "reports_issue",
        "timestamps",
        "tuning",
        "reports_ranks",
        "reduced_to",
        "least_busbw",
    ];

    #[test]
    fn every_key_of_the_sweep_is_compared_or_known_not_to_matter() {
        let sweep = serde_json::to_value(SweepMeta::default()).expect("JSON");
        let keys = sweep.as_object().expect("an object").keys();
        for key in keys {
            let is_compared = SWEEP_FLAGS.iter().any(|(compared, _)| compared == key);
            assert!(
                is_compared != OTHERS.contains(&key.as_str()),
                "put {key} into SWEEP_FLAGS if it changes what a time means, otherwise into OTHERS"
            );
        }
        assert_eq!(
            sweep.as_object().map(serde_json::Map::len),
            Some(SWEEP_FLAGS.len() + OTHERS.len())
        );
    }
}
