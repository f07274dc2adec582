//! The GPUs, by NVML, and whether ranks and GPUs fit together.

use std::collections::BTreeSet;

use super::{Check, NONE, Subject, Verdict, all, each, list, same};
use crate::native::nvml::{Gpu, Reading};

pub(super) const CHECKS: &[Check] = &[
    each("gpu.lost", "each GPU answers", lost),
    each("gpu.count", "a GPU for each rank of the node", count),
    all("gpu.siblings", "each rank sees the node's other GPUs", siblings),
    all("gpu.shared", "no GPU for two ranks", shared),
    all("gpu.same", "the same GPUs on all nodes", |job| {
        let remedy =
            "the slowest GPU sets the pace: leave out the node that differs, or ask for one kind (--constraint)";
        same(job, "GPUs", kinds, remedy, false)
    }),
    each("gpu.compute-mode", "several processes may use a GPU", |one| {
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
    }),
    each("gpu.mig", "GPUs are not cut up (MIG)", |one| {
        let remedy = "nvidia-smi -mig 0: NCCL cannot join MIG instances of one GPU, and they have no NVLink";
        reading(one, |gpu| &gpu.mig, |on| on.then(|| bad(true, "MIG is on", remedy)))
    }),
    each("gpu.ecc", "no uncorrected memory errors", |one| {
        let remedy = "reset the GPU (nvidia-smi -r) or reboot; take the node out if they come back";
        let errors = |count: &u64| (*count > 0).then(|| bad(true, &format!("{count} uncorrected errors"), remedy));
        reading(one, |gpu| &gpu.ecc_uncorrected, errors)
    }),
    each("gpu.remap", "no memory row waits to be remapped, and none failed to be", |one| {
        reading(
            one,
            |gpu| &gpu.remapped,
            |rows| match (rows.failed, rows.pending) {
                (true, _) => Some(bad(true, "remapping a row failed", "the GPU has to be replaced: take the node out")),
                (_, true) => Some(bad(true, "a row waits to be remapped", "reset the GPU (nvidia-smi -r), or reboot")),
                _ => None,
            },
        )
    }),
    each("gpu.pages", "no memory page waits to be retired", |one| {
        let waits =
            |pending: &bool| pending.then(|| bad(true, "pages wait", "reset the GPU (nvidia-smi -r), or reboot"));
        reading(one, |gpu| &gpu.pages_pending, waits)
    }),
    each("gpu.nvlink", "all NVLinks work", nvlink),
    all("gpu.nvlink-same", "as many NVLinks on all GPUs", |job| {
        let remedy = "a GPU with fewer links slows all: see nvidia-smi nvlink --status on that node";
        same(job, "number of NVLinks", links, remedy, false)
    }),
    each("gpu.throttle", "nothing slows the clocks down", |one| {
        reading(
            one,
            |gpu| &gpu.throttle,
            |reasons| {
                let bad_ones: Vec<_> = reasons.iter().filter(|reason| SLOWS.contains(&reason.as_str())).collect();
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
    each("gpu.pcie-width", "all PCIe lanes are in use", |one| pcie(one, |gpu| (&gpu.pcie_width, &gpu.pcie_width_max))),
    each("gpu.pcie-gen", "PCIe runs at its generation", pcie_gen),
    each("gpu.persistence", "the driver stays loaded", |one| {
        let remedy = "nvidia-smi -pm 1, or nvidia-persistenced: without it each start takes seconds, and clocks fall";
        reading(one, |gpu| &gpu.persistence, |on| (!on).then(|| bad(false, "persistence is off", remedy)))
    }),
];

/// Reasons that cost speed; an idle GPU or clocks that an administrator set are none.
const SLOWS: [&str; 5] =
    ["hardware slowdown", "thermal slowdown", "hardware thermal slowdown", "power brake", "sync boost"];

/// Something that is wrong with a GPU: is it a failure, what, and what to do.
type Bad = (bool, String, String);

fn bad(fails: bool, what: &str, remedy: &str) -> Bad {
    (fails, what.to_owned(), remedy.to_owned())
}

/// The GPUs of the node, or why they are not known.
fn gpus(one: &Subject) -> Result<&[Gpu], Verdict> {
    match &one.health.nvml.value {
        Some(nvml) if nvml.gpus.is_empty() => Err(Verdict::none("NVML shows no GPU")),
        Some(nvml) => Ok(&nvml.gpus),
        None if one.health.nvidia.is_none() => Err(Verdict::none("there is no NVIDIA device")),
        None => Err(Verdict::none(one.health.nvml.why.clone())),
    }
}

fn name(gpu: &Gpu) -> String {
    let bus = gpu.bus_id.value.as_deref().unwrap_or("?");
    format!("GPU {} ({bus})", gpu.index)
}

/// Judges one reading of each GPU. Not applicable where no GPU has it.
fn reading<T>(one: &Subject, of: fn(&Gpu) -> &Reading<T>, judge: impl Fn(&T) -> Option<Bad>) -> Verdict {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let known: Vec<(&Gpu, &T)> = gpus.iter().filter_map(|gpu| Some((gpu, of(gpu).value.as_ref()?))).collect();
    if known.is_empty() {
        return Verdict::none(of(&gpus[0]).why.clone());
    }
    verdict(&known.iter().map(|(gpu, value)| (*gpu, judge(value))).collect::<Vec<_>>())
}

fn verdict(judged: &[(&Gpu, Option<Bad>)]) -> Verdict {
    let found: Vec<(&Gpu, &Bad)> = judged.iter().filter_map(|(gpu, bad)| Some((*gpu, bad.as_ref()?))).collect();
    let Some((_, (_, _, remedy))) = found.iter().max_by_key(|(_, (fails, _, _))| *fails) else {
        return Verdict::ok(format!("{} GPUs", judged.len()));
    };
    let evidence =
        found.iter().map(|(gpu, (_, what, _))| format!("{}: {what}", name(gpu))).collect::<Vec<_>>().join("; ");
    match found.iter().any(|(_, (fails, _, _))| *fails) {
        true => Verdict::failure(evidence, remedy),
        false => Verdict::warning(evidence, remedy),
    }
}

fn lost(one: &Subject) -> Verdict {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let silent = |gpu: &Gpu| {
        let remedy = "a GPU that fell off the bus needs a reboot: see Xid messages in dmesg";
        gpu.bus_id.value.is_none().then(|| bad(true, &gpu.bus_id.why, remedy))
    };
    verdict(&gpus.iter().map(|gpu| (gpu, silent(gpu))).collect::<Vec<_>>())
}

/// The GPUs that a process sees: those of NVML that CUDA_VISIBLE_DEVICES names, by number or UUID.
fn visible(one: &Subject) -> Option<Vec<&Gpu>> {
    let gpus = &one.health.nvml.value.as_ref()?.gpus;
    let Some(list) = one.env("CUDA_VISIBLE_DEVICES") else { return Some(gpus.iter().collect()) };
    let named = |word: &str| {
        let word = word.trim();
        let is_it = |gpu: &&Gpu| {
            let has_uuid = gpu.uuid.value.as_ref().is_some_and(|uuid| word.len() > 4 && uuid.starts_with(word));
            word.parse() == Ok(gpu.index) || has_uuid
        };
        gpus.iter().find(is_it)
    };
    // CUDA stops at the first that it does not know.
    Some(list.split(',').map_while(named).collect())
}

fn count(one: &Subject) -> Verdict {
    if let Err(none) = gpus(one) {
        return none;
    }
    let (seen, ranks) = (visible(one).map_or(0, |gpus| gpus.len()), one.local.1);
    let list =
        one.env("CUDA_VISIBLE_DEVICES").map_or_else(String::new, |list| format!(" (CUDA_VISIBLE_DEVICES={list})"));
    match seen {
        0 => Verdict::failure(
            format!("this process sees no GPU{list}"),
            "ask Slurm for GPUs (--gpus-per-node), and do not set CUDA_VISIBLE_DEVICES by hand",
        ),
        // One GPU each is the binding of Slurm: another check's matter.
        1 => Verdict::ok(format!("1 of its own{list}")),
        _ if (seen as u32) < ranks => Verdict::failure(
            format!("{ranks} ranks on this node and {seen} GPUs visible{list}"),
            "start as many ranks a node as there are GPUs (--ntasks-per-node)",
        ),
        _ => Verdict::ok(format!("{seen} visible, {ranks} ranks")),
    }
}

/// The UUIDs that a process sees.
fn uuids(one: &Subject) -> Option<BTreeSet<String>> {
    Some(visible(one)?.iter().filter_map(|gpu| gpu.uuid.value.clone()).collect())
}

fn siblings(job: &[Subject]) -> Verdict {
    if job.iter().all(|one| gpus(one).is_err()) {
        return Verdict::none("no process sees a GPU");
    }
    let alone = |one: &&Subject| one.local.1 > 1 && uuids(one).is_some_and(|uuids| uuids.len() == 1);
    let differs = |one: &Subject| {
        job.iter().any(|other| other.node == one.node && uuids(other).is_some_and(|other| Some(other) != uuids(one)))
    };
    // A step that binds by cgroup leaves NVML one GPU too; then only Slurm's own words tell.
    match job.iter().find(alone) {
        Some(one) if differs(one) || one.env("SLURM_GPUS_PER_TASK").is_some() => Verdict::warning(
            format!(
                "rank {} on {} sees one GPU of those that its {} siblings see",
                one.rank,
                one.host,
                one.local.1 - 1
            ),
            "srun --gpu-bind=none, and --gpus-per-node instead of --gpus-per-task: NCCL must see all GPUs of a node to use NVLink",
        ),
        _ => Verdict::ok("each rank sees all that its siblings see"),
    }
}

fn shared(job: &[Subject]) -> Verdict {
    for one in job.iter().filter(|one| one.settings.get("NCCL_HOSTID").is_none()) {
        let mine = uuids(one).filter(|uuids| uuids.len() == 1);
        let same = |other: &&Subject| {
            other.rank > one.rank && other.node == one.node && mine.is_some() && uuids(other) == mine
        };
        if let Some(other) = job.iter().find(same) {
            return Verdict::failure(
                format!("ranks {} and {} on {} both see one and the same GPU only", one.rank, other.rank, one.host),
                "do not export CUDA_VISIBLE_DEVICES in the job: NCCL says 'Duplicate GPU detected'",
            );
        }
    }
    match job.iter().any(|one| gpus(one).is_ok()) {
        true => Verdict::ok("none"),
        false => Verdict::none("no process sees a GPU"),
    }
}

/// `8 x NVIDIA H100`; nothing where there are GPUs that NVML does not tell of.
fn kinds(one: &Subject) -> Option<String> {
    if !one.has_gpus() {
        return Some(NONE.into());
    }
    let gpus = gpus(one).ok()?;
    let name = gpus[0].name.value.clone()?;
    Some(format!("{} x {name}", gpus.len()))
}

fn links(one: &Subject) -> Option<String> {
    let counts: BTreeSet<usize> = gpus(one).ok()?.iter().map(|gpu| gpu.nvlinks.len()).collect();
    Some(list(&counts.into_iter().collect::<Vec<_>>()))
}

fn nvlink(one: &Subject) -> Verdict {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    if gpus.iter().all(|gpu| gpu.nvlinks.is_empty()) {
        let why = &gpus[0].nvlinks_why;
        return Verdict::none(if why.is_empty() { "the GPUs have no NVLink" } else { why });
    }
    let judge = |gpu: &Gpu| {
        let down: Vec<u32> =
            gpu.nvlinks.iter().filter(|link| link.active.value == Some(false)).map(|link| link.link).collect();
        let remedy = "nvidia-smi nvlink --status; reset the GPUs and the fabric manager, or reboot";
        (!down.is_empty()).then(|| {
            bad(true, &format!("{} of {} NVLinks are down ({})", down.len(), gpu.nvlinks.len(), list(&down)), remedy)
        })
    };
    verdict(&gpus.iter().map(|gpu| (gpu, judge(gpu))).collect::<Vec<_>>())
}

fn pcie(one: &Subject, of: fn(&Gpu) -> (&Reading<u32>, &Reading<u32>)) -> Verdict {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let judge = |gpu: &Gpu| {
        let (now, max) = of(gpu);
        let (now, max) = (now.value?, max.value?);
        let remedy = "reseat the card or look at the riser: lanes do not come back by themselves";
        (now < max).then(|| bad(false, &format!("{now} of {max} lanes"), remedy))
    };
    if gpus.iter().all(|gpu| of(gpu).0.value.is_none()) {
        return Verdict::none(of(&gpus[0]).0.why.clone());
    }
    verdict(&gpus.iter().map(|gpu| (gpu, judge(gpu))).collect::<Vec<_>>())
}

/// A GPU that does nothing lowers its generation to save power: only one that works tells.
fn pcie_gen(one: &Subject) -> Verdict {
    let gpus = match gpus(one) {
        Ok(gpus) => gpus,
        Err(none) => return none,
    };
    let is_busy =
        |gpu: &&Gpu| gpu.throttle.value.as_ref().is_some_and(|all| !all.iter().any(|reason| reason == "idle"));
    let judge = |gpu: &Gpu| {
        let (now, max) = (gpu.pcie_gen.value?, gpu.pcie_gen_max.value?);
        let remedy = "look at the slot's setting in the firmware and at AER messages in dmesg";
        (now < max).then(|| bad(false, &format!("generation {now} of {max}"), remedy))
    };
    let full = |gpu: &&Gpu| gpu.pcie_gen.value.is_some() && gpu.pcie_gen.value == gpu.pcie_gen_max.value;
    let told: Vec<(&Gpu, Option<Bad>)> =
        gpus.iter().filter(|gpu| is_busy(gpu) || full(gpu)).map(|gpu| (gpu, judge(gpu))).collect();
    match told.is_empty() {
        true => Verdict::none("idle GPUs lower their generation, and these are idle, or do not tell"),
        false => verdict(&told),
    }
}
