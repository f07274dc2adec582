//! The GPUs of a node, by NVML.

use super::{check::Check, compare::list, outcome::CheckOutcome};
use crate::{
    facts::ranks::RankFacts,
    native::nvml::{NvmlGpu, Reading, Remapped},
    units::counted,
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process("gpu.lost", "each GPU responds", |process| {
        check_gpus(process, lost)
    }),
    Check::per_process(
        "gpu.compute-mode",
        "several processes may use a GPU",
        |process| check_reading(process, |gpu| &gpu.compute_mode, |mode| compute_mode(mode)),
    ),
    Check::per_process("gpu.mig", "MIG is off", |process| {
        check_reading(process, |gpu| &gpu.mig, mig)
    }),
    Check::per_process("gpu.ecc", "no uncorrected memory errors", |process| {
        check_reading(process, |gpu| &gpu.ecc_uncorrected, uncorrected_errors)
    }),
    Check::per_process(
        "gpu.remap",
        "no memory row is waiting to be remapped, and no remapping failed",
        |process| check_reading(process, |gpu| &gpu.remapped, remapped_rows),
    ),
    Check::per_process(
        "gpu.pages",
        "no memory page is waiting to be retired",
        |process| check_reading(process, |gpu| &gpu.pages_pending, pending_pages),
    ),
    Check::per_process("gpu.throttle", "nothing slows the clocks down", |process| {
        check_reading(process, |gpu| &gpu.throttle, |reasons| throttle(reasons))
    }),
    Check::per_process("gpu.pcie-width", "all PCIe lanes are in use", pcie_width),
    Check::per_process(
        "gpu.pcie-gen",
        "PCIe runs at its maximum generation",
        pcie_generation,
    ),
    Check::per_process("gpu.persistence", "the driver stays loaded", |process| {
        check_reading(process, |gpu| &gpu.persistence, persistence)
    }),
];

/// Throttle reasons that cost speed; being idle, or clocks that an administrator set, are none.
const SLOWING: [&str; 5] = [
    "hardware slowdown",
    "thermal slowdown",
    "hardware thermal slowdown",
    "power brake",
    "sync boost",
];

/// Something that is wrong with a GPU.
pub(super) struct GpuProblem {
    fails: bool,
    evidence: String,
    remedy: &'static str,
}

impl GpuProblem {
    pub(super) fn failure(evidence: impl Into<String>, remedy: &'static str) -> GpuProblem {
        GpuProblem {
            fails: true,
            evidence: evidence.into(),
            remedy,
        }
    }

    fn warning(evidence: impl Into<String>, remedy: &'static str) -> GpuProblem {
        GpuProblem {
            fails: false,
            evidence: evidence.into(),
            remedy,
        }
    }
}

/// A GPU and what is wrong with it, if anything.
pub(super) struct CheckedGpu<'a> {
    pub(super) gpu: &'a NvmlGpu,
    pub(super) problem: Option<GpuProblem>,
}

/// Returns the GPUs of the node, or why they are not known.
pub(super) fn gpus(process: &RankFacts) -> Result<&[NvmlGpu], CheckOutcome> {
    let health = &process.health;
    match &health.nvml.value {
        Some(nvml) if nvml.gpus.is_empty() => {
            Err(CheckOutcome::not_applicable("NVML lists no GPU"))
        }
        Some(nvml) => Ok(&nvml.gpus),
        None if health.nvidia.is_none() => {
            Err(CheckOutcome::not_applicable("there is no NVIDIA device"))
        }
        None => Err(CheckOutcome::not_applicable(health.nvml.why.clone())),
    }
}

fn name(gpu: &NvmlGpu) -> String {
    let bus = gpu.bus_id.value.as_deref().unwrap_or("?");
    format!("GPU {} ({bus})", gpu.index)
}

/// Combines the problems of the GPUs of a node; the remedy is that of the last of the worst ones.
pub(super) fn combine(checked: &[CheckedGpu]) -> CheckOutcome {
    let mut evidence = Vec::new();
    let mut worst: Option<&GpuProblem> = None;
    for CheckedGpu { gpu, problem } in checked {
        let Some(problem) = problem else { continue };
        evidence.push(format!("{}: {}", name(gpu), problem.evidence));
        if worst.is_none_or(|worst| problem.fails >= worst.fails) {
            worst = Some(problem);
        }
    }
    match worst {
        None => CheckOutcome::ok(counted(checked.len(), "GPU")),
        Some(worst) => CheckOutcome::finding(worst.fails, evidence.join("; "), worst.remedy),
    }
}

/// Checks each GPU of the node.
fn check_gpus(process: &RankFacts, check: fn(&NvmlGpu) -> Option<GpuProblem>) -> CheckOutcome {
    match gpus(process) {
        Ok(gpus) => combine(&checked(gpus, check)),
        Err(none) => none,
    }
}

fn checked(gpus: &[NvmlGpu], check: fn(&NvmlGpu) -> Option<GpuProblem>) -> Vec<CheckedGpu<'_>> {
    gpus.iter()
        .map(|gpu| CheckedGpu {
            gpu,
            problem: check(gpu),
        })
        .collect()
}

/// Checks one reading of each GPU that has it. Not applicable if no GPU has it.
fn check_reading<T>(
    process: &RankFacts,
    reading: fn(&NvmlGpu) -> &Reading<T>,
    check: fn(&T) -> Option<GpuProblem>,
) -> CheckOutcome {
    let gpus = match gpus(process) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let mut checked = Vec::new();
    for gpu in gpus {
        if let Some(value) = &reading(gpu).value {
            let problem = check(value);
            checked.push(CheckedGpu { gpu, problem });
        }
    }
    if checked.is_empty() {
        return CheckOutcome::not_applicable(reading(&gpus[0]).why.clone());
    }
    combine(&checked)
}

fn lost(gpu: &NvmlGpu) -> Option<GpuProblem> {
    let remedy = "reboot: this GPU fell off the bus (see Xid messages in dmesg)";
    let is_lost = gpu.bus_id.value.is_none();
    is_lost.then(|| GpuProblem::failure(&gpu.bus_id.why, remedy))
}

fn compute_mode(mode: &str) -> Option<GpuProblem> {
    match mode {
        "default" => None,
        "prohibited" => Some(GpuProblem::failure(mode, "nvidia-smi -c 0 (as root)")),
        _ => Some(GpuProblem::warning(
            mode,
            "nvidia-smi -c 0 (as root): a second process on the GPU gets 'busy or unavailable'",
        )),
    }
}

fn mig(is_on: &bool) -> Option<GpuProblem> {
    let remedy =
        "nvidia-smi -mig 0: NCCL cannot join MIG instances of one GPU, and they have no NVLink";
    is_on.then(|| GpuProblem::failure("MIG is on", remedy))
}

fn uncorrected_errors(count: &u64) -> Option<GpuProblem> {
    let remedy = "reset the GPU (nvidia-smi -r) or reboot; if the errors come back, drain the node";
    let evidence = counted(
        usize::try_from(*count).unwrap_or(usize::MAX),
        "uncorrected error",
    );
    (*count > 0).then(|| GpuProblem::failure(evidence, remedy))
}

fn remapped_rows(rows: &Remapped) -> Option<GpuProblem> {
    if rows.failed {
        Some(GpuProblem::failure(
            "remapping a row failed",
            "drain the node and replace the GPU",
        ))
    } else if rows.pending {
        Some(GpuProblem::failure(
            "a row is waiting to be remapped",
            "reset the GPU (nvidia-smi -r), or reboot",
        ))
    } else {
        None
    }
}

fn pending_pages(is_pending: &bool) -> Option<GpuProblem> {
    let remedy = "reset the GPU (nvidia-smi -r), or reboot";
    is_pending.then(|| GpuProblem::failure("pages are waiting to be retired", remedy))
}

fn throttle(reasons: &[String]) -> Option<GpuProblem> {
    let mut slowing: Vec<&String> = reasons.iter().collect();
    slowing.retain(|reason| SLOWING.contains(&reason.as_str()));
    let remedy = "check cooling and power (nvidia-smi -q -d PERFORMANCE): numbers will be low";
    (!slowing.is_empty()).then(|| GpuProblem::warning(list(&slowing), remedy))
}

fn persistence(is_on: &bool) -> Option<GpuProblem> {
    let remedy = "nvidia-smi -pm 1, or nvidia-persistenced: without it each start takes seconds, \
                  and clocks drop";
    (!is_on).then(|| GpuProblem::warning("persistence mode is off", remedy))
}

fn pcie_width(process: &RankFacts) -> CheckOutcome {
    let gpus = match gpus(process) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    if gpus.iter().all(|gpu| gpu.pcie_width.value.is_none()) {
        return CheckOutcome::not_applicable(gpus[0].pcie_width.why.clone());
    }
    combine(&checked(gpus, missing_lanes))
}

fn missing_lanes(gpu: &NvmlGpu) -> Option<GpuProblem> {
    let (now, max) = (gpu.pcie_width.value?, gpu.pcie_width_max.value?);
    let remedy = "reseat the card or check the riser: lost lanes do not come back by themselves";
    (now < max).then(|| GpuProblem::warning(format!("{now} of {max} lanes"), remedy))
}

/// Checks the PCIe generation. An idle GPU lowers it to save power, so only busy GPUs count, and
/// those that are at their maximum anyway.
fn pcie_generation(process: &RankFacts) -> CheckOutcome {
    let gpus = match gpus(process) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let mut checked = checked(gpus, lower_generation);
    checked.retain(|checked| is_busy(checked.gpu) || is_at_maximum_generation(checked.gpu));
    if checked.is_empty() {
        return CheckOutcome::not_applicable(
            "idle GPUs lower their generation, and these are idle or do not report it",
        );
    }
    combine(&checked)
}

fn is_busy(gpu: &NvmlGpu) -> bool {
    let reasons = gpu.throttle.value.as_ref();
    reasons.is_some_and(|reasons| !reasons.iter().any(|reason| reason == "idle"))
}

fn is_at_maximum_generation(gpu: &NvmlGpu) -> bool {
    gpu.pcie_gen.value.is_some() && gpu.pcie_gen.value == gpu.pcie_gen_max.value
}

fn lower_generation(gpu: &NvmlGpu) -> Option<GpuProblem> {
    let (now, max) = (gpu.pcie_gen.value?, gpu.pcie_gen_max.value?);
    let remedy = "check the slot's setting in the firmware and AER messages in dmesg";
    (now < max).then(|| GpuProblem::warning(format!("generation {now} of {max}"), remedy))
}
