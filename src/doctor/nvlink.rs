//! NVLinks: do those work that should, and can nodes of one NVLink cluster share memory?
//!
//! How many links a card has says little: without bridges a PCIe card has links that never work. So a GPU is held against
//! its like, and only what ends at a switch has to work whatever the others do.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, CheckOutcome, RankFacts, all, each, gpu, list, same};
use crate::{
    levels::reading,
    native::nvml::{NvlinkFabric, NvmlGpu, Remote},
};

pub(super) const CHECKS: &[Check] = &[
    each("gpu.nvlink", "each GPU has the NVLinks of its like", nvlink),
    all(
        "gpu.nvlink-same",
        "as many working NVLinks on the GPUs of all nodes",
        nvlink_same,
    ),
    each(
        "gpu.imex",
        "nodes of one NVLink cluster have a channel to share memory",
        imex,
    ),
];

/// The links that work; nothing where one does not tell.
fn up(gpu: &NvmlGpu) -> Option<usize> {
    let known: Option<Vec<bool>> = gpu.nvlinks.iter().map(|link| link.active.value).collect();
    Some(known?.into_iter().filter(|active| *active).count())
}

/// The links of each GPU that tells, by the GPU's name.
fn by_name(gpus: &[NvmlGpu]) -> BTreeMap<&str, Vec<(&NvmlGpu, usize)>> {
    let mut all: BTreeMap<&str, Vec<(&NvmlGpu, usize)>> = BTreeMap::new();
    for gpu in gpus {
        if let (Some(name), Some(up)) = (&gpu.name.value, up(gpu)) {
            all.entry(name).or_default().push((gpu, up));
        }
    }
    all
}

/// How many links a GPU should have: as many as the best of its like, and all that it has where links end at a switch,
/// to which all do.
fn expected(gpu: &NvmlGpu, best: usize) -> usize {
    let is_switched = gpu
        .nvlinks
        .iter()
        .any(|link| link.active.value == Some(true) && link.remote == Remote::Switch);
    if is_switched {
        best.max(gpu.nvlinks.len())
    } else {
        best
    }
}

fn nvlink(one: &RankFacts) -> CheckOutcome {
    let gpus = match gpu::gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    if gpus.iter().all(|gpu| gpu.nvlinks.is_empty()) {
        let why = &gpus[0].nvlinks_why;
        return CheckOutcome::none(if why.is_empty() {
            "the GPUs have no NVLink"
        } else {
            why
        });
    }
    let alike = by_name(gpus);
    let (mut judged, mut said) = (Vec::new(), Vec::new());
    for (name, gpus) in &alike {
        let best = gpus.iter().map(|(_, up)| *up).max().unwrap_or(0);
        said.push(match gpus.iter().map(|(gpu, _)| gpu.nvlinks.len()).max() {
            Some(all) if best > 0 => format!("{best} of {all} on each {name}"),
            _ => format!("no NVLink is up on any {name}"),
        });
        judged.extend(
            gpus.iter()
                .map(|(gpu, up)| (*gpu, fewer(gpu, *up, expected(gpu, best)))),
        );
    }
    match gpu::verdict(&judged) {
        CheckOutcome::Ok { .. } if said.is_empty() => {
            CheckOutcome::none("the GPUs do not tell which NVLinks work")
        }
        CheckOutcome::Ok { .. } if said.iter().all(|words| words.starts_with("no NVLink")) => {
            CheckOutcome::none(format!(
                "{}: PCIe cards without bridges are like that",
                said.join("; ")
            ))
        }
        CheckOutcome::Ok { .. } => CheckOutcome::ok(said.join("; ")),
        found => found,
    }
}

fn fewer(gpu: &NvmlGpu, up: usize, expected: usize) -> Option<gpu::GpuProblem> {
    let down: Vec<u32> = gpu
        .nvlinks
        .iter()
        .filter(|link| link.active.value == Some(false))
        .map(|link| link.link)
        .collect();
    let which = if down.is_empty() {
        String::new()
    } else {
        format!(" (down: {})", list(&down))
    };
    let remedy = "nvidia-smi nvlink --status; reset the GPUs and the fabric manager, or reboot; look at the bridges";
    (up < expected).then(|| {
        gpu::bad(
            true,
            &format!("{up} of {expected} NVLinks work{which}"),
            remedy,
        )
    })
}

/// What the best of a kind has is compared: one that has less than its siblings is another check's matter.
fn nvlink_same(job: &[RankFacts]) -> CheckOutcome {
    let remedy = "a GPU with fewer links slows all: see nvidia-smi nvlink --status on that node";
    let best = |one: &RankFacts, name: &str| {
        let alike = by_name(gpu::gpus(one).ok()?).remove(name)?;
        alike
            .iter()
            .map(|(_, up)| up.to_string())
            .max_by_key(|up| up.parse::<usize>().unwrap_or(0))
    };
    let gpus = || job.iter().filter_map(|one| gpu::gpus(one).ok()).flatten();
    let names: BTreeSet<&str> = gpus().filter_map(|gpu| gpu.name.value.as_deref()).collect();
    let of_name = |name: &str| {
        same(
            job,
            &format!("number of NVLinks that work on an {name}"),
            |one| best(one, name),
            remedy,
            false,
        )
    };
    // The worst of them; of those that are no finding, one that says something.
    let worst = |verdict: &CheckOutcome| match verdict {
        CheckOutcome::NotApplicable { .. } => 0,
        CheckOutcome::Ok { .. } => 1,
        CheckOutcome::Warning { .. } | CheckOutcome::Failure { .. } => 2,
    };
    let verdicts = names.into_iter().map(of_name);
    verdicts
        .max_by_key(worst)
        .unwrap_or_else(|| CheckOutcome::none("no process knows its number of NVLinks"))
}

/// A GPU whose fabric spans several nodes.
fn in_cluster(gpu: &NvmlGpu) -> Option<&NvlinkFabric> {
    let fabric = gpu.fabric.value.as_ref()?;
    (fabric.state == "completed" && fabric.cluster.chars().any(|digit| digit != '0'))
        .then_some(fabric)
}

fn imex(one: &RankFacts) -> CheckOutcome {
    let gpus = match gpu::gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    // /proc/devices has a number for channels wherever the driver is new: only NVML knows of clusters.
    let Some(fabric) = gpus.iter().find_map(in_cluster) else {
        let why = match &gpus[0].fabric {
            fabric if fabric.value.is_none() => format!(": NVML's answer is '{}'", fabric.why),
            _ => String::new(),
        };
        return CheckOutcome::none(format!(
            "no GPU is in an NVLink cluster of several nodes{why}"
        ));
    };
    let evidence = format!(
        "NVLink cluster {}, clique {}",
        fabric.cluster, fabric.clique
    );
    let is_off = one
        .settings
        .get("NCCL_MNNVL_ENABLE")
        .and_then(reading::integer)
        == Some(0);
    let remedy = "start nvidia-imex on all nodes of the cluster and make a channel (nvidia-modprobe -c 0; Slurm's plugin \
                  switch/nvidia_imex makes one a job; a container needs it as a device), or NCCL_MNNVL_ENABLE=0, without NVLink between nodes";
    match one
        .health
        .imex
        .iter()
        .find(|name| name.starts_with("channel"))
    {
        Some(channel) => CheckOutcome::ok(format!(
            "{evidence}: /dev/nvidia-caps-imex-channels/{channel}"
        )),
        None if is_off => CheckOutcome::ok(format!("{evidence}: not used, NCCL_MNNVL_ENABLE=0")),
        None => {
            let evidence = format!("{evidence}, but /dev/nvidia-caps-imex-channels has no channel");
            match one.world > one.local.1 {
                true => CheckOutcome::failure(evidence, remedy),
                // On one node NCCL does without.
                false => CheckOutcome::warning(evidence, remedy),
            }
        }
    }
}
