//! Whether ranks and GPUs fit together. What counts on a node are the GPUs that its ranks see
//! between them: each rank may be bound to one, to several, or to none.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    check::Check,
    compare::{Difference, NONE, by_node, list, same_everywhere},
    gpu::gpus,
    outcome::CheckOutcome,
};
use crate::{
    facts::ranks::RankFacts, native::nvml::NvmlGpu, units::counted,
    world::placement::group_by_visible_gpus,
};

pub(super) const CHECKS: &[Check] = &[
    Check::across_job("gpu.count", "a GPU for each rank of a node", gpu_count),
    Check::across_job(
        "gpu.siblings",
        "each rank sees the node's other GPUs",
        siblings,
    ),
    Check::across_job("gpu.shared", "no GPU is used by two ranks", shared_gpus),
    Check::across_job(
        "gpu.same",
        "the same model and number of GPUs on all nodes",
        models_same,
    ),
];

/// The first NCCL that lets ranks share a GPU (NCCL_MULTI_RANK_GPU_ENABLE).
const SHARING_SINCE: i32 = 23000;

/// UUIDs of GPUs.
type GpuSet = BTreeSet<String>;

/// Returns what identifies a GPU on its node.
fn identity(gpu: &NvmlGpu) -> String {
    let uuid = gpu.uuid.value.clone();
    uuid.unwrap_or_else(|| format!("GPU {}", gpu.index))
}

/// Returns the GPUs that a process sees, or `None` if it does not know. CUDA reads
/// CUDA_VISIBLE_DEVICES like this: as numbers or as the beginnings of UUIDs, but not both, up to
/// the first that does not exist. If a GPU is named twice the process sees none at all; of MIG
/// instances it sees one.
fn visible_gpus(process: &RankFacts) -> Option<GpuSet> {
    let gpus = &process.health.nvml.value.as_ref()?.gpus;
    let Some(devices) = process.env("CUDA_VISIBLE_DEVICES") else {
        return Some(gpus.iter().map(identity).collect());
    };
    let devices: Vec<&str> = devices.split(',').map(str::trim).collect();
    if let Some(gpu) = gpu_of_mig_instance(devices[0]) {
        return Some(GpuSet::from([gpu.to_owned()]));
    }
    let by_number = devices[0].parse::<u32>().is_ok();
    let mut visible = GpuSet::new();
    for device in devices {
        let Some(gpu) = gpus.iter().find(|gpu| names_gpu(device, by_number, gpu)) else {
            break;
        };
        let is_new = visible.insert(identity(gpu));
        if !is_new {
            return Some(GpuSet::new());
        }
    }
    Some(visible)
}

/// Returns the GPU of a MIG instance, or the instance itself: the old form names the GPU
/// (`MIG-GPU-…/1/0`); the new one does not, and NVML's inventory has no instances.
fn gpu_of_mig_instance(device: &str) -> Option<&str> {
    let instance = device.strip_prefix("MIG-")?;
    match instance.split('/').next() {
        Some(gpu) if gpu.starts_with("GPU-") => Some(gpu),
        _ => Some(device),
    }
}

/// Returns whether an entry of CUDA_VISIBLE_DEVICES names this GPU.
fn names_gpu(device: &str, by_number: bool, gpu: &NvmlGpu) -> bool {
    if by_number {
        return device.parse() == Ok(gpu.index);
    }
    let is_uuid = device.len() > "GPU-".len();
    let uuid = gpu.uuid.value.as_deref();
    is_uuid && uuid.is_some_and(|uuid| uuid.starts_with(device))
}

/// Returns the GPUs that the ranks of a node see between them, or `None` if one of them does not
/// know.
fn gpus_of_node(ranks: &[&RankFacts]) -> Option<GpuSet> {
    let mut gpus = GpuSet::new();
    for rank in ranks {
        gpus.extend(visible_gpus(rank)?);
    }
    Some(gpus)
}

/// Returns whether ranks may share a GPU. An older NCCL does not read the variable.
fn may_share(process: &RankFacts) -> bool {
    let is_set = process.may_share_gpu();
    let is_known = match &process.nccl {
        Ok(nccl) => nccl.version >= SHARING_SINCE,
        Err(_) => true,
    };
    is_set && is_known
}

/// Returns CUDA_VISIBLE_DEVICES for the end of a sentence.
fn shown_devices(process: &RankFacts) -> String {
    match process.env("CUDA_VISIBLE_DEVICES") {
        Some(devices) => format!(" (CUDA_VISIBLE_DEVICES={devices})"),
        None => String::new(),
    }
}

/// Returns why there is nothing to check, if no process sees a GPU through NVML.
fn no_gpus(job: &[RankFacts]) -> Option<CheckOutcome> {
    let mut reasons = job.iter().map(|process| gpus(process).err());
    let first = reasons.next()??;
    let is_everywhere = reasons.all(|reason| reason.is_some());
    is_everywhere.then_some(first)
}

fn gpu_count(job: &[RankFacts]) -> CheckOutcome {
    if let Some(none) = no_gpus(job) {
        return none;
    }
    if let Some(blind) = job.iter().find(|process| is_blind(process)) {
        return CheckOutcome::failure(
            format!(
                "rank {} on {} sees no GPU{}",
                blind.rank,
                blind.host,
                shown_devices(blind)
            ),
            "request GPUs from Slurm (--gpus-per-node), and do not set CUDA_VISIBLE_DEVICES by \
             hand: if it names a GPU twice it hides all of them",
        );
    }
    let mut evidence = BTreeSet::new();
    for ranks in by_node(job).values() {
        let Some(gpus) = gpus_of_node(ranks) else {
            continue;
        };
        let counts = format!(
            "{} for {} per node",
            counted(gpus.len(), "GPU"),
            counted(ranks.len(), "rank")
        );
        // One GPU for all is what `gpu.shared` finds.
        if gpus.len() >= ranks.len() || gpus.len() == 1 {
            evidence.insert(counts);
        } else if ranks.iter().all(|rank| may_share(rank)) {
            evidence.insert(format!(
                "{counts}: NCCL_MULTI_RANK_GPU_ENABLE=1 lets them share"
            ));
        } else {
            return too_many_ranks(ranks, gpus.len());
        }
    }
    let evidence: Vec<String> = evidence.into_iter().collect();
    CheckOutcome::ok(evidence.join("; "))
}

/// Returns whether the node has GPUs but this process sees none of them.
fn is_blind(process: &RankFacts) -> bool {
    gpus(process).is_ok() && visible_gpus(process).is_some_and(|gpus| gpus.is_empty())
}

fn too_many_ranks(ranks: &[&RankFacts], gpu_count: usize) -> CheckOutcome {
    CheckOutcome::failure(
        format!(
            "{} on {}, but only {} visible{}",
            counted(ranks.len(), "rank"),
            ranks[0].host,
            counted(gpu_count, "GPU"),
            shown_devices(ranks[0])
        ),
        "start as many ranks per node as there are GPUs (--ntasks-per-node)",
    )
}

fn siblings(job: &[RankFacts]) -> CheckOutcome {
    if let Some(none) = no_gpus(job) {
        return none;
    }
    for ranks in by_node(job).values().filter(|ranks| ranks.len() > 1) {
        let Some(all) = gpus_of_node(ranks) else {
            continue;
        };
        for rank in ranks {
            let Some(visible) = visible_gpus(rank) else {
                continue;
            };
            if is_bound(rank, visible.len(), all.len()) {
                let evidence = format!(
                    "rank {} on {} sees {} of the {} that the ranks of its node see",
                    rank.rank,
                    rank.host,
                    visible.len(),
                    counted(all.len(), "GPU")
                );
                return CheckOutcome::warning(
                    evidence,
                    "use srun --gpu-bind=none, and --gpus-per-node instead of --gpus-per-task: \
                     NCCL must see all GPUs of a node to use NVLink",
                );
            }
        }
    }
    CheckOutcome::ok("each rank sees all GPUs that its siblings see")
}

/// Returns whether a rank is bound to some of the GPUs of its node. If a step binds by control
/// group NVML shows every rank the same number of GPUs, and only Slurm's variable tells.
fn is_bound(rank: &RankFacts, visible: usize, all: usize) -> bool {
    visible < all || visible == 1 && rank.env("SLURM_GPUS_PER_TASK").is_some()
}

/// Checks that ranks which share out the same GPUs are not more than those. If all ranks of a node
/// see the same several GPUs, the number of ranks is wrong, which `gpu.count` finds.
fn shared_gpus(job: &[RankFacts]) -> CheckOutcome {
    if let Some(none) = no_gpus(job) {
        return none;
    }
    let mut allowed = None;
    for ranks in by_node(job).values() {
        let seeing = ranks.iter().filter_map(|rank| {
            let visible = visible_gpus(rank)?;
            (!visible.is_empty()).then_some((*rank, visible))
        });
        for (gpus, group) in group_by_visible_gpus(seeing) {
            let is_whole_node = group.len() == ranks.len();
            if group.len() <= gpus.len() || gpus.len() > 1 && is_whole_node {
                continue;
            }
            let evidence = shared_evidence(&group, gpus.len());
            if !group.iter().all(|rank| may_share(rank)) {
                return CheckOutcome::failure(
                    evidence,
                    "do not export CUDA_VISIBLE_DEVICES in the job: NCCL refuses with 'Duplicate \
                     GPU detected'",
                );
            }
            allowed = Some(format!(
                "{evidence}, which NCCL_MULTI_RANK_GPU_ENABLE=1 allows"
            ));
        }
    }
    CheckOutcome::ok(allowed.unwrap_or_else(|| NONE.into()))
}

fn shared_evidence(group: &[&RankFacts], gpu_count: usize) -> String {
    let ranks: Vec<u32> = group.iter().map(|rank| rank.rank).collect();
    format!(
        "ranks {} on {} see only the same {}",
        list(&ranks),
        group[0].host,
        counted(gpu_count, "GPU")
    )
}

/// Returns the GPUs of a node by model, such as `4 x NVIDIA A100, 4 x NVIDIA H100`; `None` if NVML
/// does not report them.
fn models(process: &RankFacts) -> Option<String> {
    if !process.has_gpus() {
        return Some(NONE.into());
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for gpu in gpus(process).ok()? {
        *counts.entry(gpu.name.value.as_deref()?).or_default() += 1;
    }
    let models: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} x {name}"))
        .collect();
    Some(list(&models))
}

/// Returns the models of the GPUs that a process sees.
fn visible_models(process: &RankFacts) -> BTreeSet<&str> {
    let (Ok(gpus), Some(visible)) = (gpus(process), visible_gpus(process)) else {
        return BTreeSet::new();
    };
    gpus.iter()
        .filter(|gpu| visible.contains(&identity(gpu)))
        .filter_map(|gpu| gpu.name.value.as_deref())
        .collect()
}

fn models_same(job: &[RankFacts]) -> CheckOutcome {
    // A display card that no rank sees does not matter.
    let mixed = job.iter().find(|process| visible_models(process).len() > 1);
    if let Some(process) = mixed {
        return CheckOutcome::warning(
            format!(
                "{} has GPUs of several models: {}",
                process.host,
                models(process).unwrap_or_default()
            ),
            "the slowest GPU sets the pace: request one model (--gpus-per-node=TYPE:N), or leave \
             the others out of CUDA_VISIBLE_DEVICES",
        );
    }
    let difference = Difference {
        remedy: "the slowest GPU sets the pace: exclude the node that differs, or request one \
                 model (--constraint)",
        fails: false,
    };
    same_everywhere(job, "GPUs", models, difference)
}
