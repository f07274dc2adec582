//! The facts that every rank reports for `pxnbench doctor`, and their exchange between the ranks.

use std::{path::Path, time::SystemTime};

use serde::{Deserialize, Serialize};

use super::{
    audit, health,
    start::{self, StartFacts},
};
use crate::{
    env::{self, Env},
    levels::{
        audit::{AuditFinding, Severity},
        conf::NcclSettings,
        reading,
    },
    native::cuda_release::CudaRelease,
    world::{self, World, launch, placement},
};

/// A finding of the audit of NCCL's environment, made on the process itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFact {
    /// The rule's id.
    pub id: String,
    /// Its severity.
    pub severity: Severity,
    /// What was found.
    pub sentence: String,
    /// What to do.
    pub remedy: String,
}

impl From<&AuditFinding> for AuditFact {
    fn from(finding: &AuditFinding) -> AuditFact {
        AuditFact {
            id: finding.id.into(),
            severity: finding.severity,
            sentence: finding.sentence.clone(),
            remedy: finding.remedy.clone(),
        }
    }
}

/// A rule of the audit that could not be applied on a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRule {
    /// The rule's id.
    pub id: String,
    /// Why it could not be applied.
    pub reason: String,
}

/// The libnccl that a process would load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedNccl {
    /// Its file.
    pub file: String,
    /// Its version, such as 22803.
    pub version: i32,
    /// The CUDA that it is built for, if its file tells.
    pub cuda: Option<CudaRelease>,
}

/// The facts of one rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankFacts {
    /// The rank.
    pub rank: u32,
    /// The number of ranks.
    pub world: u32,
    /// Its host name.
    pub host: String,
    /// The number of its node.
    pub node: u32,
    /// The number of ranks on its node.
    pub local_size: u32,
    /// The MPI library; empty if there is only one process.
    pub mpi: String,
    /// The libnccl that it would load, or why there is none.
    pub nccl: Result<LoadedNccl, String>,
    /// NCCL's settings in force.
    pub settings: NcclSettings,
    /// The audit's findings on them.
    pub audited: Vec<AuditFact>,
    /// The audit's rules that could not be applied.
    pub not_audited: Vec<SkippedRule>,
    /// Seconds since 1970 on its clock, read at a moment that all ranks share.
    pub clock: f64,
    /// Its node.
    pub health: health::NodeHealth,
    /// What the start of a sweep would find.
    pub start: StartFacts,
    /// Its host and GPUs, by which ranks and GPUs are brought together.
    pub identity: placement::ProcessIdentity,
}

impl RankFacts {
    /// Returns whether the node has an NVIDIA GPU.
    pub fn has_gpus(&self) -> bool {
        let nvml = self.health.nvml.value.as_ref();
        self.health.nvidia.is_some() || nvml.is_some_and(|nvml| !nvml.gpus.is_empty())
    }

    /// Returns whether a sweep would use GPUs: the node has one, or Slurm gave the job one.
    pub fn is_for_gpus(&self) -> bool {
        self.has_gpus() || self.start.gpu_evidence.is_some()
    }

    /// Returns a variable of the recorded environment.
    pub(crate) fn env(&self, name: &str) -> Option<&str> {
        self.health.env.get(name).map(String::as_str)
    }

    /// Returns a number from the recorded environment.
    pub(crate) fn env_number(&self, name: &str) -> Option<u64> {
        self.env(name)?.trim().parse().ok()
    }

    /// Returns whether the environment lets two ranks share a GPU.
    pub(crate) fn may_share_gpu(&self) -> bool {
        let value = self.settings.get("NCCL_MULTI_RANK_GPU_ENABLE");
        value.and_then(reading::integer) == Some(1)
    }

    pub(crate) fn is_in_slurm_job(&self) -> bool {
        self.env("SLURM_JOB_ID").is_some()
    }

    /// Returns what the launcher says about the processes that it started.
    pub(crate) fn launched(&self) -> Option<launch::LaunchedProcesses> {
        launch::processes(&|name| self.env(name).map(str::to_owned))
    }

    /// Returns whether the job spans several nodes.
    pub(crate) fn spans_nodes(&self) -> bool {
        self.world > self.local_size
    }
}

/// The source of the facts; the defaults are this machine and its own libraries.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The root of the file system.
    pub root: &'a Path,
    /// The libnccl to use instead of the one that is found.
    pub nccl_lib: Option<&'a Path>,
    /// A file with NVML's answers, to be read instead of asking NVML.
    pub nvml: Option<&'a Path>,
    /// Why a sweep refuses variables of this process.
    pub refused_variables: &'a [String],
}

/// Gathers the facts of all ranks, in rank order. Every rank calls it.
///
/// # Errors
/// Returns an error if what a rank sent cannot be read.
pub fn gather(sources: Sources, env: Env, world: &dyn World) -> anyhow::Result<Vec<RankFacts>> {
    let mut job = world::all_gather(world, &own_facts(sources, env, world))?;
    // All ranks leave the barrier at about the same moment: what takes long, and differs between
    // ranks, comes before it.
    world.barrier();
    let clocks: Vec<f64> = world::all_gather(world, &seconds_since_1970())?;
    let peers: Vec<placement::ProcessIdentity> =
        job.iter().map(|facts| facts.identity.clone()).collect();
    let places = placement::place_ranks(&peers);
    let may_share = job.iter().all(RankFacts::may_share_gpu);
    let own_gpu = start::start_gpu(&peers, &places, world.rank(), may_share);
    let started: Vec<Option<Result<(), String>>> = world::all_gather(world, &own_gpu)?;
    for (facts, gpu) in job.iter_mut().zip(started) {
        facts.start.gpu = gpu;
    }
    for ((facts, clock), place) in job.iter_mut().zip(clocks).zip(&places) {
        facts.clock = clock;
        facts.node = place.node;
        facts.local_size = places
            .iter()
            .filter(|other| other.node == place.node)
            .count() as u32;
    }
    Ok(job)
}

/// Gathers the facts of this process. What only the other ranks can tell, such as its node, is
/// filled in later.
fn own_facts(sources: Sources, env: Env, world: &dyn World) -> RankFacts {
    let in_job = env("SLURM_JOB_ID").is_some();
    let audit = audit::audit(sources.root, sources.nccl_lib, None, in_job);
    let health = health::gather(sources.root, env, sources.nvml, &audit.settings);
    let start = start::gather(sources.root, sources.refused_variables, env, world);
    let nccl = audit.library.map(|library| LoadedNccl {
        file: library.path.display().to_string(),
        version: library.version,
        cuda: library.cuda,
    });
    let mut not_audited = Vec::new();
    for (rule, reason) in audit.not_applicable {
        let id = rule.id.to_owned();
        not_audited.push(SkippedRule { id, reason });
    }
    RankFacts {
        rank: world.rank(),
        world: world.size(),
        host: placement::host_name(),
        node: 0,
        local_size: 1,
        mpi: world.library(),
        nccl,
        settings: audit.settings,
        audited: audit.findings.iter().map(AuditFact::from).collect(),
        not_audited,
        clock: 0.0,
        health,
        identity: own_identity(env, &start),
        start,
    }
}

/// Returns the time on this process's clock.
fn seconds_since_1970() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

fn own_identity(env: Env, start: &StartFacts) -> placement::ProcessIdentity {
    let gpus = match &start.cuda {
        Some(Ok(gpus)) => gpus.clone(),
        Some(Err(_)) | None => Vec::new(),
    };
    placement::ProcessIdentity {
        host: placement::host_name(),
        host_id: placement::host_id(env),
        pid: std::process::id(),
        gpus,
        first_gpu: env::nccl_tests(env, "NCCL_TESTS_DEVICE"),
    }
}
