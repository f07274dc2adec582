//! NVLinks: whether those that should work do, and whether nodes of one NVLink cluster can share
//! memory.
//!
//! The number of links that a card has says little: a PCIe card without bridges has links that
//! never work. So a GPU is compared with others of its model, and only if its links end at a switch
//! all of them have to work.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    check::Check,
    compare::{Difference, list, same_everywhere},
    gpu::{CheckedGpu, GpuProblem, combine, gpus},
    outcome::CheckOutcome,
};
use crate::{
    facts::ranks::RankFacts,
    levels::reading,
    native::nvml::{NvlinkFabric, NvmlGpu, Remote},
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process(
        "gpu.nvlink",
        "the NVLink count matches other GPUs of this model",
        nvlink,
    ),
    Check::across_job(
        "gpu.nvlink-same",
        "the same number of working NVLinks on the GPUs of all nodes",
        nvlink_same,
    ),
    Check::per_process(
        "gpu.imex",
        "nodes of one NVLink cluster have a channel to share memory",
        imex,
    ),
];

/// A GPU, and how many of its NVLinks work.
struct LinkedGpu<'a> {
    gpu: &'a NvmlGpu,
    working: usize,
}

impl LinkedGpu<'_> {
    /// Returns how many links should work: as many as on the best GPU of this model, and all of
    /// them if they end at a switch.
    fn expected(&self, best: usize) -> usize {
        let mut links = self.gpu.nvlinks.iter();
        let is_switched =
            links.any(|link| link.active.value == Some(true) && link.remote == Remote::Switch);
        if is_switched {
            best.max(self.gpu.nvlinks.len())
        } else {
            best
        }
    }

    /// Returns the problem if fewer links work than expected.
    fn problem(&self, expected: usize) -> Option<GpuProblem> {
        if self.working >= expected {
            return None;
        }
        let mut down = Vec::new();
        for link in &self.gpu.nvlinks {
            if link.active.value == Some(false) {
                down.push(link.link);
            }
        }
        let mut evidence = format!("{} of {expected} NVLinks work", self.working);
        if !down.is_empty() {
            evidence += &format!(" (down: {})", list(&down));
        }
        Some(GpuProblem::failure(
            evidence,
            "nvidia-smi nvlink --status; reset the GPUs and the fabric manager, or reboot; check \
             the bridges",
        ))
    }
}

/// Returns the number of links that work, or `None` if one of them is unknown.
fn working_links(gpu: &NvmlGpu) -> Option<usize> {
    let mut working = 0;
    for link in &gpu.nvlinks {
        working += usize::from(link.active.value?);
    }
    Some(working)
}

/// Groups the GPUs whose links are known by model.
fn by_model(gpus: &[NvmlGpu]) -> BTreeMap<&str, Vec<LinkedGpu<'_>>> {
    let mut models: BTreeMap<&str, Vec<LinkedGpu>> = BTreeMap::new();
    for gpu in gpus {
        if let (Some(model), Some(working)) = (&gpu.name.value, working_links(gpu)) {
            let linked = LinkedGpu { gpu, working };
            models.entry(model).or_default().push(linked);
        }
    }
    models
}

fn most_working(gpus: &[LinkedGpu]) -> usize {
    gpus.iter().map(|linked| linked.working).max().unwrap_or(0)
}

fn most_links(gpus: &[LinkedGpu]) -> usize {
    let counts = gpus.iter().map(|linked| linked.gpu.nvlinks.len());
    counts.max().unwrap_or(0)
}

fn nvlink(process: &RankFacts) -> CheckOutcome {
    let gpus = match gpus(process) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    if gpus.iter().all(|gpu| gpu.nvlinks.is_empty()) {
        let why = gpus[0].nvlinks_why.as_str();
        return CheckOutcome::not_applicable(if why.is_empty() {
            "the GPUs have no NVLink"
        } else {
            why
        });
    }
    let models = by_model(gpus);
    let (mut checked, mut evidence) = (Vec::new(), Vec::new());
    let mut is_any_up = false;
    for (model, gpus) in &models {
        let best = most_working(gpus);
        if best > 0 {
            is_any_up = true;
            evidence.push(format!("{best} of {} on each {model}", most_links(gpus)));
        } else {
            evidence.push(format!("no NVLink is up on any {model}"));
        }
        for linked in gpus {
            checked.push(CheckedGpu {
                gpu: linked.gpu,
                problem: linked.problem(linked.expected(best)),
            });
        }
    }
    let outcome = combine(&checked);
    if outcome.is_finding() {
        return outcome;
    }
    if checked.is_empty() {
        return CheckOutcome::not_applicable("the GPUs do not report which NVLinks work");
    }
    let evidence = evidence.join("; ");
    if is_any_up {
        CheckOutcome::ok(evidence)
    } else {
        CheckOutcome::not_applicable(format!(
            "{evidence}, as is normal for PCIe cards without bridges"
        ))
    }
}

/// Compares the best GPU of each model across nodes: one that has fewer links than its siblings is
/// found by `gpu.nvlink`.
fn nvlink_same(job: &[RankFacts]) -> CheckOutcome {
    let mut models = BTreeSet::new();
    for process in job {
        let gpus = gpus(process).unwrap_or_default();
        models.extend(gpus.iter().filter_map(|gpu| gpu.name.value.as_deref()));
    }
    let mut worst = CheckOutcome::not_applicable("no process knows its number of NVLinks");
    for model in models {
        let outcome = nvlink_same_on_model(job, model);
        if weight(&outcome) >= weight(&worst) {
            worst = outcome;
        }
    }
    worst
}

fn nvlink_same_on_model(job: &[RankFacts], model: &str) -> CheckOutcome {
    let best = |process: &RankFacts| {
        let linked = by_model(gpus(process).ok()?).remove(model)?;
        Some(most_working(&linked).to_string())
    };
    let difference = Difference {
        remedy: "a GPU with fewer links slows down all: check nvidia-smi nvlink --status on that \
                 node",
        fails: false,
    };
    let what = format!("number of working NVLinks on an {model}");
    same_everywhere(job, &what, best, difference)
}

/// Returns how much an outcome tells: a finding most, then one with evidence.
fn weight(outcome: &CheckOutcome) -> u32 {
    match outcome {
        CheckOutcome::NotApplicable { .. } => 0,
        CheckOutcome::Ok { .. } => 1,
        CheckOutcome::Warning { .. } | CheckOutcome::Failure { .. } => 2,
    }
}

/// Returns the fabric of a GPU if it spans several nodes.
fn cluster(gpu: &NvmlGpu) -> Option<&NvlinkFabric> {
    let fabric = gpu.fabric.value.as_ref()?;
    let has_cluster = fabric.cluster.chars().any(|digit| digit != '0');
    (fabric.state == "completed" && has_cluster).then_some(fabric)
}

fn imex(process: &RankFacts) -> CheckOutcome {
    let gpus = match gpus(process) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    // With a recent driver /proc/devices has an entry for channels on every machine: only NVML
    // knows of clusters.
    let Some(fabric) = gpus.iter().find_map(cluster) else {
        return not_in_cluster(&gpus[0]);
    };
    let evidence = format!(
        "NVLink cluster {}, clique {}",
        fabric.cluster, fabric.clique
    );
    let mut devices = process.health.imex.iter();
    if let Some(channel) = devices.find(|name| name.starts_with("channel")) {
        return CheckOutcome::ok(format!(
            "{evidence}: /dev/nvidia-caps-imex-channels/{channel}"
        ));
    }
    let enabled = process.settings.get("NCCL_MNNVL_ENABLE");
    if enabled.and_then(reading::integer) == Some(0) {
        return CheckOutcome::ok(format!("{evidence}: not used, NCCL_MNNVL_ENABLE=0"));
    }
    CheckOutcome::finding(
        // On one node NCCL does without a channel.
        process.spans_nodes(),
        format!("{evidence}, but /dev/nvidia-caps-imex-channels has no channel"),
        "start nvidia-imex on all nodes of the cluster and create a channel (nvidia-modprobe -c \
         0; Slurm's plugin switch/nvidia_imex creates one per job; a container needs it as a \
         device), or set NCCL_MNNVL_ENABLE=0 to do without NVLink between nodes",
    )
}

fn not_in_cluster(gpu: &NvmlGpu) -> CheckOutcome {
    let mut reason = "no GPU is in an NVLink cluster of several nodes".to_owned();
    if gpu.fabric.value.is_none() {
        reason += &format!(": NVML's answer is '{}'", gpu.fabric.why);
    }
    CheckOutcome::not_applicable(reason)
}
