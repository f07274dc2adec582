//! The GPUs of a node, by NVML.

use super::{Check, CheckOutcome, RankFacts, each, list};
use crate::native::nvml::{NvmlGpu, Reading};

pub(super) const CHECKS: &[Check] = &[
    each("gpu.lost", "each GPU answers", lost),
    each(
        "gpu.compute-mode",
        "several processes may use a GPU",
        |one| {
            reading(
                one,
                |gpu| &gpu.compute_mode,
                |mode| match mode.as_str() {
                    "default" => None,
                    "prohibited" => Some(bad(true, "prohibited", "nvidia-smi -c 0 (as root)")),
                    mode => Some(bad(
                        false,
                        mode,
                        "nvidia-smi -c 0 (as root): a second process on the GPU gets 'busy or unavailable'",
                    )),
                },
            )
        },
    ),
    each("gpu.mig", "GPUs are not cut up (MIG)", |one| {
        let remedy =
            "nvidia-smi -mig 0: NCCL cannot join MIG instances of one GPU, and they have no NVLink";
        reading(
            one,
            |gpu| &gpu.mig,
            |on| on.then(|| bad(true, "MIG is on", remedy)),
        )
    }),
    each("gpu.ecc", "no uncorrected memory errors", |one| {
        let remedy = "reset the GPU (nvidia-smi -r) or reboot; take the node out if they come back";
        let errors = |count: &u64| {
            (*count > 0).then(|| bad(true, &format!("{count} uncorrected errors"), remedy))
        };
        reading(one, |gpu| &gpu.ecc_uncorrected, errors)
    }),
    each(
        "gpu.remap",
        "no memory row waits to be remapped, and none failed to be",
        |one| {
            reading(
                one,
                |gpu| &gpu.remapped,
                |rows| match (rows.failed, rows.pending) {
                    (true, _) => Some(bad(
                        true,
                        "remapping a row failed",
                        "the GPU has to be replaced: take the node out",
                    )),
                    (_, true) => Some(bad(
                        true,
                        "a row waits to be remapped",
                        "reset the GPU (nvidia-smi -r), or reboot",
                    )),
                    _ => None,
                },
            )
        },
    ),
    each("gpu.pages", "no memory page waits to be retired", |one| {
        let waits = |pending: &bool| {
            pending.then(|| {
                bad(
                    true,
                    "pages wait",
                    "reset the GPU (nvidia-smi -r), or reboot",
                )
            })
        };
        reading(one, |gpu| &gpu.pages_pending, waits)
    }),
    each("gpu.throttle", "nothing slows the clocks down", |one| {
        reading(
            one,
            |gpu| &gpu.throttle,
            |reasons| {
                let bad_ones: Vec<_> = reasons
                    .iter()
                    .filter(|reason| SLOWS.contains(&reason.as_str()))
                    .collect();
                (!bad_ones.is_empty()).then(|| {
                    bad(
                        false,
                        &list(&bad_ones),
                        "look at cooling and power: nvidia-smi -q -d PERFORMANCE; numbers will be low",
                    )
                })
            },
        )
    }),
    each("gpu.pcie-width", "all PCIe lanes are in use", |one| {
        pcie(one, |gpu| (&gpu.pcie_width, &gpu.pcie_width_max))
    }),
    each("gpu.pcie-gen", "PCIe runs at its generation", pcie_gen),
    each("gpu.persistence", "the driver stays loaded", |one| {
        let remedy = "nvidia-smi -pm 1, or nvidia-persistenced: without it each start takes seconds, and clocks fall";
        reading(
            one,
            |gpu| &gpu.persistence,
            |on| (!on).then(|| bad(false, "persistence is off", remedy)),
        )
    }),
];

/// Reasons that cost speed; an idle GPU or clocks that an administrator set are none.
const SLOWS: [&str; 5] = [
    "hardware slowdown",
    "thermal slowdown",
    "hardware thermal slowdown",
    "power brake",
    "sync boost",
];

/// Something that is wrong with a GPU: is it a failure, what, and what to do.
pub(super) type GpuProblem = (bool, String, String);

pub(super) fn bad(fails: bool, what: &str, remedy: &str) -> GpuProblem {
    (fails, what.to_owned(), remedy.to_owned())
}

/// The GPUs of the node, or why they are not known.
pub(super) fn gpus(one: &RankFacts) -> Result<&[NvmlGpu], CheckOutcome> {
    match &one.health.nvml.value {
        Some(nvml) if nvml.gpus.is_empty() => Err(CheckOutcome::none("NVML shows no GPU")),
        Some(nvml) => Ok(&nvml.gpus),
        None if one.health.nvidia.is_none() => Err(CheckOutcome::none("there is no NVIDIA device")),
        None => Err(CheckOutcome::none(one.health.nvml.why.clone())),
    }
}

fn name(gpu: &NvmlGpu) -> String {
    let bus = gpu.bus_id.value.as_deref().unwrap_or("?");
    format!("GPU {} ({bus})", gpu.index)
}

/// Judges one reading of each GPU. Not applicable where no GPU has it.
fn reading<T>(
    one: &RankFacts,
    of: fn(&NvmlGpu) -> &Reading<T>,
    judge: impl Fn(&T) -> Option<GpuProblem>,
) -> CheckOutcome {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let known: Vec<(&NvmlGpu, &T)> = gpus
        .iter()
        .filter_map(|gpu| Some((gpu, of(gpu).value.as_ref()?)))
        .collect();
    if known.is_empty() {
        return CheckOutcome::none(of(&gpus[0]).why.clone());
    }
    verdict(
        &known
            .iter()
            .map(|(gpu, value)| (*gpu, judge(value)))
            .collect::<Vec<_>>(),
    )
}

pub(super) fn verdict(judged: &[(&NvmlGpu, Option<GpuProblem>)]) -> CheckOutcome {
    let found: Vec<(&NvmlGpu, &GpuProblem)> = judged
        .iter()
        .filter_map(|(gpu, bad)| Some((*gpu, bad.as_ref()?)))
        .collect();
    let Some((_, (_, _, remedy))) = found.iter().max_by_key(|(_, (fails, _, _))| *fails) else {
        return CheckOutcome::ok(format!("{} GPUs", judged.len()));
    };
    let evidence = found
        .iter()
        .map(|(gpu, (_, what, _))| format!("{}: {what}", name(gpu)))
        .collect::<Vec<_>>()
        .join("; ");
    match found.iter().any(|(_, (fails, _, _))| *fails) {
        true => CheckOutcome::failure(evidence, remedy),
        false => CheckOutcome::warning(evidence, remedy),
    }
}

fn lost(one: &RankFacts) -> CheckOutcome {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let silent = |gpu: &NvmlGpu| {
        let remedy = "a GPU that fell off the bus needs a reboot: see Xid messages in dmesg";
        gpu.bus_id
            .value
            .is_none()
            .then(|| bad(true, &gpu.bus_id.why, remedy))
    };
    verdict(
        &gpus
            .iter()
            .map(|gpu| (gpu, silent(gpu)))
            .collect::<Vec<_>>(),
    )
}

fn pcie(one: &RankFacts, of: fn(&NvmlGpu) -> (&Reading<u32>, &Reading<u32>)) -> CheckOutcome {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let judge = |gpu: &NvmlGpu| {
        let (now, max) = of(gpu);
        let (now, max) = (now.value?, max.value?);
        let remedy = "reseat the card or look at the riser: lanes do not come back by themselves";
        (now < max).then(|| bad(false, &format!("{now} of {max} lanes"), remedy))
    };
    if gpus.iter().all(|gpu| of(gpu).0.value.is_none()) {
        return CheckOutcome::none(of(&gpus[0]).0.why.clone());
    }
    verdict(&gpus.iter().map(|gpu| (gpu, judge(gpu))).collect::<Vec<_>>())
}

/// A GPU that does nothing lowers its generation to save power: only one that works tells.
fn pcie_gen(one: &RankFacts) -> CheckOutcome {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let is_busy = |gpu: &&NvmlGpu| {
        gpu.throttle
            .value
            .as_ref()
            .is_some_and(|all| !all.iter().any(|reason| reason == "idle"))
    };
    let judge = |gpu: &NvmlGpu| {
        let (now, max) = (gpu.pcie_gen.value?, gpu.pcie_gen_max.value?);
        let remedy = "look at the slot's setting in the firmware and at AER messages in dmesg";
        (now < max).then(|| bad(false, &format!("generation {now} of {max}"), remedy))
    };
    let full = |gpu: &&NvmlGpu| {
        gpu.pcie_gen.value.is_some() && gpu.pcie_gen.value == gpu.pcie_gen_max.value
    };
    let told: Vec<(&NvmlGpu, Option<GpuProblem>)> = gpus
        .iter()
        .filter(|gpu| is_busy(gpu) || full(gpu))
        .map(|gpu| (gpu, judge(gpu)))
        .collect();
    match told.is_empty() {
        true => CheckOutcome::none(
            "idle GPUs lower their generation, and these are idle, or do not tell",
        ),
        false => verdict(&told),
    }
}
