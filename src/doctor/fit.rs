//! Whether ranks and GPUs fit together. What counts on a node are the GPUs that its ranks see between them: each may be
//! bound to one, to several, or to none.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, CheckOutcome, NONE, RankFacts, all, counted, gpu::gpus, list, nodes, same};
use crate::{levels::reading, native::nvml::NvmlGpu};

pub(super) const CHECKS: &[Check] = &[
    all("gpu.count", "a GPU for each rank of a node", count),
    all(
        "gpu.siblings",
        "each rank sees the node's other GPUs",
        siblings,
    ),
    all("gpu.shared", "no GPU for two ranks", shared),
    all(
        "gpu.same",
        "one kind of GPU, and as many on all nodes",
        kinds_same,
    ),
];

/// The NCCL from which ranks may share a GPU where they are told to.
const SHARING: i32 = 23000;

/// What tells a GPU from others.
fn identity(gpu: &NvmlGpu) -> String {
    gpu.uuid
        .value
        .clone()
        .unwrap_or_else(|| format!("GPU {}", gpu.index))
}

/// The GPUs that a process sees, as CUDA reads CUDA_VISIBLE_DEVICES: by number or by the start of a UUID, not both, and up
/// to the first that is not there. With one that is named twice it shows none at all, and of MIG instances one.
fn visible(one: &RankFacts) -> Option<Vec<String>> {
    let gpus = &one.health.nvml.value.as_ref()?.gpus;
    let Some(words) = one.env("CUDA_VISIBLE_DEVICES") else {
        return Some(gpus.iter().map(identity).collect());
    };
    let words: Vec<&str> = words.split(',').map(str::trim).collect();
    if let Some(instance) = words[0].strip_prefix("MIG-") {
        // The old form names the GPU, `MIG-GPU-…/1/0`. The new one stands for itself: NVML's inventory has no instances.
        let of = instance
            .split('/')
            .next()
            .filter(|uuid| uuid.starts_with("GPU-"));
        return Some(vec![of.unwrap_or(words[0]).to_owned()]);
    }
    let by_number = words[0].parse::<u32>().is_ok();
    let named = |word: &&str| {
        let is_it = |gpu: &&NvmlGpu| match by_number {
            true => word.parse() == Ok(gpu.index),
            false => gpu
                .uuid
                .value
                .as_ref()
                .is_some_and(|uuid| word.len() > 4 && uuid.starts_with(*word)),
        };
        gpus.iter().find(is_it).map(identity)
    };
    let seen: Vec<String> = words.iter().map_while(named).collect();
    let twice = seen.iter().collect::<BTreeSet<_>>().len() < seen.len();
    Some(if twice { Vec::new() } else { seen })
}

fn seen(one: &RankFacts) -> Option<BTreeSet<String>> {
    Some(visible(one)?.into_iter().collect())
}

/// The GPUs that the ranks of a node see between them; nothing where one does not know.
fn of_node(ranks: &[&RankFacts]) -> Option<BTreeSet<String>> {
    let all: Option<Vec<BTreeSet<String>>> = ranks.iter().map(|one| seen(one)).collect();
    Some(all?.into_iter().flatten().collect())
}

/// May ranks share a GPU? NCCL that is older does not read the variable.
fn may_share(one: &RankFacts) -> bool {
    let is_set = one
        .settings
        .get("NCCL_MULTI_RANK_GPU_ENABLE")
        .and_then(reading::integer)
        == Some(1);
    is_set
        && one
            .nccl
            .as_ref()
            .map_or(true, |(_, version)| *version >= SHARING)
}

fn count(job: &[RankFacts]) -> CheckOutcome {
    if let Some(none) = nobody(job) {
        return none;
    }
    let devices = |one: &RankFacts| {
        one.env("CUDA_VISIBLE_DEVICES")
            .map_or_else(String::new, |list| {
                format!(" (CUDA_VISIBLE_DEVICES={list})")
            })
    };
    if let Some(one) = job
        .iter()
        .find(|one| gpus(one).is_ok() && visible(one).is_some_and(|seen| seen.is_empty()))
    {
        return CheckOutcome::failure(
            format!(
                "rank {} on {} sees no GPU{}",
                one.rank,
                one.host,
                devices(one)
            ),
            "ask Slurm for GPUs (--gpus-per-node), and do not set CUDA_VISIBLE_DEVICES by hand; one that is named twice hides all",
        );
    }
    let mut said = BTreeSet::new();
    for ranks in nodes(job).values() {
        let Some(seen) = of_node(ranks) else { continue };
        let counts = format!(
            "{} for {} of a node",
            counted(seen.len(), "GPU"),
            counted(ranks.len(), "rank")
        );
        match seen.len() {
            // One GPU for all is what `gpu.shared` finds.
            gpus if gpus >= ranks.len() || gpus == 1 => said.insert(counts),
            _ if ranks.iter().all(|one| may_share(one)) => said.insert(format!(
                "{counts}: NCCL_MULTI_RANK_GPU_ENABLE=1 lets them share"
            )),
            gpus => {
                return CheckOutcome::failure(
                    format!(
                        "{} ranks on {} and {gpus} GPUs visible{}",
                        ranks.len(),
                        ranks[0].host,
                        devices(ranks[0])
                    ),
                    "start as many ranks a node as there are GPUs (--ntasks-per-node)",
                );
            }
        };
    }
    CheckOutcome::ok(said.into_iter().collect::<Vec<_>>().join("; "))
}

/// Why there is nothing to judge, where no process sees a GPU through NVML.
fn nobody(job: &[RankFacts]) -> Option<CheckOutcome> {
    let mut none = job.iter().map(|one| gpus(one).err());
    let first = none.next()??;
    none.all(|none| none.is_some()).then_some(first)
}

fn siblings(job: &[RankFacts]) -> CheckOutcome {
    if let Some(none) = nobody(job) {
        return none;
    }
    let remedy = "srun --gpu-bind=none, and --gpus-per-node instead of --gpus-per-task: NCCL must see all GPUs of a node to use NVLink";
    for ranks in nodes(job).values().filter(|ranks| ranks.len() > 1) {
        let Some(all) = of_node(ranks) else { continue };
        // A step that binds by cgroup leaves NVML the same view; then only Slurm's own words tell.
        let is_bound = |one: &&&RankFacts| {
            seen(one).is_some_and(|seen| {
                seen.len() < all.len()
                    || seen.len() == 1 && one.env("SLURM_GPUS_PER_TASK").is_some()
            })
        };
        if let Some(one) = ranks.iter().find(is_bound) {
            let mine = seen(one).map_or(0, |seen| seen.len());
            let evidence = format!(
                "rank {} on {} sees {mine} of the {} that its node's ranks see",
                one.rank,
                one.host,
                counted(all.len(), "GPU")
            );
            return CheckOutcome::warning(evidence, remedy);
        }
    }
    CheckOutcome::ok("each rank sees all that its siblings see")
}

/// Ranks that see the same GPUs share them out: there must not be more of them than of GPUs. Where that are all ranks of a
/// node and several GPUs, it is the number of ranks that is wrong.
fn shared(job: &[RankFacts]) -> CheckOutcome {
    if let Some(none) = nobody(job) {
        return none;
    }
    let mut allowed = None;
    for ranks in nodes(job).values() {
        let mut groups: BTreeMap<BTreeSet<String>, Vec<&RankFacts>> = BTreeMap::new();
        for one in ranks {
            if let Some(seen) = seen(one).filter(|seen| !seen.is_empty()) {
                groups.entry(seen).or_default().push(one);
            }
        }
        let too_many = |(gpus, group): &(&BTreeSet<String>, &Vec<&RankFacts>)| {
            group.len() > gpus.len() && (gpus.len() == 1 || group.len() < ranks.len())
        };
        for (gpus, group) in groups.iter().filter(too_many) {
            let who: Vec<u32> = group.iter().map(|one| one.rank).collect();
            let evidence = format!(
                "ranks {} on {} see {} and no other",
                list(&who),
                group[0].host,
                counted(gpus.len(), "GPU")
            );
            if !group.iter().all(|one| may_share(one)) {
                return CheckOutcome::failure(
                    evidence,
                    "do not export CUDA_VISIBLE_DEVICES in the job: NCCL says 'Duplicate GPU detected'",
                );
            }
            allowed = Some(format!(
                "{evidence}, which NCCL_MULTI_RANK_GPU_ENABLE=1 allows"
            ));
        }
    }
    CheckOutcome::ok(allowed.unwrap_or_else(|| "none".into()))
}

/// `4 x NVIDIA A100, 4 x NVIDIA H100`; nothing where there are GPUs that NVML does not tell of.
fn kinds(one: &RankFacts) -> Option<String> {
    if !one.has_gpus() {
        return Some(NONE.into());
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for gpu in gpus(one).ok()? {
        *kinds.entry(gpu.name.value.as_deref()?).or_default() += 1;
    }
    Some(list(
        &kinds
            .iter()
            .map(|(name, count)| format!("{count} x {name}"))
            .collect::<Vec<_>>(),
    ))
}

/// The names of the GPUs that a process sees.
fn names(one: &RankFacts) -> BTreeSet<String> {
    let (Ok(all), Some(seen)) = (gpus(one), seen(one)) else {
        return BTreeSet::new();
    };
    all.iter()
        .filter(|gpu| seen.contains(&identity(gpu)))
        .filter_map(|gpu| gpu.name.value.clone())
        .collect()
}

fn kinds_same(job: &[RankFacts]) -> CheckOutcome {
    let remedy = "the slowest GPU sets the pace: leave out the node that differs, or ask for one kind (--constraint)";
    // A display's card that no rank sees is no matter.
    if let Some(one) = job.iter().find(|one| names(one).len() > 1) {
        return CheckOutcome::warning(
            format!(
                "{} has several kinds of GPU: {}",
                one.host,
                kinds(one).unwrap_or_default()
            ),
            "the slowest GPU sets the pace: ask for one kind (--gpus-per-node=TYPE:N), or leave the other out of CUDA_VISIBLE_DEVICES",
        );
    }
    same(job, "GPUs", kinds, remedy, false)
}
