//! What the start of a sweep would find on a process: the same calls as the sweep's, and their
//! answers.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use super::{nvidia, slurm};
use crate::{
    env::Env,
    native::cuda_release::CudaRelease,
    world::{
        World, launch,
        placement::{self, ProcessIdentity, RankPlacement},
    },
};

/// How long MPI may take to start in a process of its own, which gives up a little earlier.
const MPI_STARTS: Duration = Duration::from_secs(45);

/// The answers to the first calls of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFacts {
    /// The evidence that the node has an NVIDIA device, or that Slurm gave the job one. With any of
    /// them a sweep uses GPUs.
    pub gpu_evidence: Option<String>,
    /// The UUIDs of the GPUs that CUDA shows, or why it shows none; `None` on a copied tree, which
    /// has no CUDA.
    pub cuda: Option<Result<Vec<String>, String>>,
    /// Whether the GPU that this rank would use starts, or why not; `None` if it would use none.
    pub gpu: Option<Result<(), String>>,
    /// The newest CUDA that libcuda supports.
    pub cuda_release: Option<CudaRelease>,
    /// Why a sweep refuses variables of this process.
    pub refused_variables: Vec<String>,
    /// Whether MPI starts, or why not; `None` if it runs already, or cannot be tried.
    pub mpi: Option<Result<(), String>>,
}

/// Asks for them. Only this machine itself can answer, not a copied tree.
pub(super) fn gather(
    root: &Path,
    refused_variables: &[String],
    env: Env,
    world: &dyn World,
) -> StartFacts {
    let told = StartFacts {
        gpu_evidence: nvidia::evidence(root, env),
        refused_variables: refused_variables.to_vec(),
        ..StartFacts::default()
    };
    if root != Path::new("/") {
        return told;
    }
    // A launcher's ranks have started MPI to get here.
    let is_alone = world.size() == 1 && launch::processes(env).is_none();
    StartFacts {
        cuda: Some(visible_gpus()),
        cuda_release: cuda_release(),
        mpi: is_alone.then(try_mpi),
        ..told
    }
}

/// Starts the GPU that `rank` would use in a sweep with one GPU per rank. The end of the process
/// frees it.
pub(super) fn start_gpu(
    peers: &[ProcessIdentity],
    places: &[RankPlacement],
    rank: u32,
    may_share: bool,
) -> Option<Result<(), String>> {
    if peers.iter().all(|peer| peer.gpus.is_empty()) {
        return None;
    }
    let assigned = placement::assign_gpus(peers, places, 1, may_share).ok()?;
    let gpu = *assigned.get(rank as usize)?.first()?;
    Some(start(gpu))
}

#[cfg(feature = "nccl")]
fn start(gpu: usize) -> Result<(), String> {
    let driver = crate::native::cuda::driver().map_err(|error| format!("{error:#}"))?;
    driver.start_gpu(gpu).map_err(|error| format!("{error:#}"))
}

#[cfg(not(feature = "nccl"))]
fn start(_: usize) -> Result<(), String> {
    Err("this binary is built without the feature nccl".into())
}

#[cfg(feature = "nccl")]
fn visible_gpus() -> Result<Vec<String>, String> {
    let gpus = crate::native::cuda::gpus().map_err(|error| format!("{error:#}"))?;
    Ok(gpus.into_iter().map(|gpu| gpu.uuid).collect())
}

#[cfg(not(feature = "nccl"))]
fn visible_gpus() -> Result<Vec<String>, String> {
    Err("this binary is built without the feature nccl".into())
}

#[cfg(feature = "nccl")]
fn cuda_release() -> Option<CudaRelease> {
    crate::native::cuda::versions().get("cuda")?.parse().ok()
}

#[cfg(not(feature = "nccl"))]
fn cuda_release() -> Option<CudaRelease> {
    None
}

/// Starts MPI in another process: one in which it does not start is stopped by MPI itself.
fn try_mpi() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    slurm::answer(&program, &["probe"], MPI_STARTS).map(drop)
}
