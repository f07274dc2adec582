//! Whether a sweep would start: the same questions as the sweep's own, in the same order.

use super::{check::Check, outcome::CheckOutcome};
use crate::{
    facts::ranks::RankFacts,
    native::cuda_release::{self, CudaRelease},
    world::placement::{self, ProcessIdentity},
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process("start.mpi", "MPI starts", mpi),
    Check::per_process(
        "start.variables",
        "nccl-tests' variables have values that a sweep accepts",
        variables,
    ),
    Check::across_job(
        "start.gpu",
        "CUDA shows each rank a GPU of its own, if the job has GPUs",
        gpu,
    ),
    Check::per_process(
        "start.cuda",
        "the driver runs what this program and libnccl are built for",
        cuda,
    ),
];

fn mpi(process: &RankFacts) -> CheckOutcome {
    match &process.start.mpi {
        None => {
            CheckOutcome::not_applicable("not tested: MPI runs already, or cannot be started here")
        }
        Some(Ok(())) => CheckOutcome::ok("it starts"),
        Some(Err(why)) => CheckOutcome::failure(
            format!("MPI does not start: {why}"),
            "load the MPI that pxnbench was built with, and unset what configures another one \
             (env | grep -e OMPI_ -e PMIX_ -e MPICH_)",
        ),
    }
}

fn variables(process: &RankFacts) -> CheckOutcome {
    let refused = &process.start.refused_variables;
    if refused.is_empty() {
        return CheckOutcome::ok("none is refused");
    }
    CheckOutcome::failure(
        refused.join("; "),
        "correct the value, or unset the variable",
    )
}

/// Checks what a sweep with `--backend auto` requires: if one process has evidence of a GPU, each
/// needs one.
fn gpu(job: &[RankFacts]) -> CheckOutcome {
    if !job.iter().any(RankFacts::is_for_gpus) {
        return CheckOutcome::not_applicable(
            "there is no NVIDIA device, and Slurm gave the job none",
        );
    }
    let mut identities = Vec::new();
    for process in job {
        match &process.start.cuda {
            None => return CheckOutcome::not_applicable("a copied tree has no CUDA"),
            Some(Ok(gpus)) if !gpus.is_empty() => identities.push(process.identity.clone()),
            Some(Ok(_)) => return no_gpu(process, "CUDA shows no GPU"),
            Some(Err(why)) => return no_gpu(process, why),
        }
    }
    if let Err(why) = assign(job, &identities) {
        return CheckOutcome::failure(
            why,
            "correct this before a sweep. The check assumes one GPU per process; with -g or -t, \
             start correspondingly fewer of them",
        );
    }
    for process in job {
        if let Some(Err(why)) = &process.start.gpu {
            return CheckOutcome::failure(
                format!(
                    "rank {} on {} cannot start its GPU: {why}",
                    process.rank, process.host
                ),
                "check with nvidia-smi which process uses the GPU, and that its compute mode is \
                 Default",
            );
        }
    }
    CheckOutcome::ok("each rank has one, and it starts")
}

fn no_gpu(process: &RankFacts, why: &str) -> CheckOutcome {
    let evidence = process.start.gpu_evidence.as_deref();
    CheckOutcome::failure(
        format!(
            "rank {} on {} cannot use a GPU ({}): {why}",
            process.rank,
            process.host,
            evidence.unwrap_or("no NVIDIA device was found")
        ),
        "make a GPU visible to this rank (see nvidia-smi -L, CUDA_VISIBLE_DEVICES, \
         --gpus-per-node), or measure host memory with --backend host",
    )
}

/// Brings ranks and GPUs together as a sweep does with one GPU per rank.
fn assign(job: &[RankFacts], identities: &[ProcessIdentity]) -> Result<(), String> {
    let may_share = job.iter().all(RankFacts::may_share_gpu);
    let places = placement::place_ranks(identities);
    placement::assign_gpus(identities, &places, 1, may_share)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn cuda(process: &RankFacts) -> CheckOutcome {
    if !process.is_for_gpus() {
        return CheckOutcome::not_applicable("there is no NVIDIA device");
    }
    let driver = process.health.driver.value.as_deref();
    // A compatibility package makes libcuda newer than the driver.
    let of_driver = || CudaRelease::of_driver(driver?);
    let Some(supported) = process.start.cuda_release.or_else(of_driver) else {
        return CheckOutcome::not_applicable("the CUDA that the driver supports is unknown");
    };
    if supported < cuda_release::OLDEST {
        return CheckOutcome::failure(
            format!(
                "the driver supports CUDA {supported} only; {} is needed",
                cuda_release::OLDEST
            ),
            "update the driver to 525 or newer",
        );
    }
    let built_for = process.nccl.as_ref().ok().and_then(|nccl| nccl.cuda);
    match built_for {
        Some(built_for) if built_for.major > supported.major => CheckOutcome::failure(
            format!(
                "libnccl is built for CUDA {built_for}, but the driver supports CUDA {supported}: \
                 NCCL ends with 'CUDA driver version is insufficient for CUDA runtime version'"
            ),
            format!(
                "load an NCCL that is built for CUDA {}, or update the driver",
                supported.major
            ),
        ),
        Some(built_for) => {
            CheckOutcome::ok(format!("CUDA {supported}, and libnccl needs {built_for}"))
        }
        None => CheckOutcome::ok(format!("CUDA {supported}")),
    }
}
