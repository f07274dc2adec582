//! What GPUDirect RDMA needs of the kernel: a module for peer memory, or dma-buf, which serves as well.

use super::{Check, CheckOutcome, NONE, RankFacts, all, each, same};
use crate::levels::reading;

pub(super) const CHECKS: &[Check] = &[
    each(
        "gdr.module",
        "a kernel module for GPUDirect RDMA, or dma-buf",
        module,
    ),
    each(
        "gdr.module-name",
        "this NCCL knows the module's name",
        module_name,
    ),
    all("gdr.module-same", "the module on all nodes", module_same),
];

/// The last NCCL that does not know the module's new name.
const OLD_NAME_ONLY: i32 = 22203;

/// What dma-buf takes: NCCL, Linux, and the driver whose open modules were the first to have it.
const NCCL_WITH: i32 = 21300;
const LINUX_WITH: (u32, u32) = (5, 12);
const DRIVER_WITH: u32 = 515;

/// Can dma-buf do the module's work? By versions: nobody has tried.
enum DmaBuf {
    /// It can.
    Serves(String),
    /// Something rules it out.
    Not(String),
    /// Something that decides it cannot be read.
    Unknown(String),
}

fn dma_buf(one: &RankFacts) -> DmaBuf {
    let health = &one.health;
    if one
        .settings
        .get("NCCL_DMABUF_ENABLE")
        .and_then(reading::integer)
        == Some(0)
    {
        return DmaBuf::Not("NCCL_DMABUF_ENABLE=0".into());
    }
    let nccl = match &one.nccl {
        Ok((_, version)) if *version < NCCL_WITH => {
            return DmaBuf::Not(format!("NCCL {version} does not know it"));
        }
        Ok((_, version)) => format!("NCCL {version}"),
        Err(_) => return DmaBuf::Unknown("no libnccl is found".into()),
    };
    let unread = [
        &health.kernel.why,
        &health.driver.why,
        &health.open_modules.why,
    ]
    .into_iter();
    let unread = unread
        .filter(|why| !why.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    let linux = health.kernel.value.as_deref();
    let driver = health.driver.value.as_deref();
    let is_old_linux = linux
        .and_then(linux_version)
        .is_some_and(|version| version < LINUX_WITH);
    let is_old_driver = driver
        .and_then(|text| text.split('.').next()?.parse().ok())
        .is_some_and(|n: u32| n < DRIVER_WITH);
    match (linux, driver, health.open_modules.value) {
        (_, _, Some(false)) => {
            DmaBuf::Not("the driver's kernel modules are not the open ones".into())
        }
        (Some(linux), ..) if is_old_linux => {
            DmaBuf::Not(format!("Linux {linux} is older than 5.12"))
        }
        (_, Some(driver), _) if is_old_driver => {
            DmaBuf::Not(format!("driver {driver} is older than {DRIVER_WITH}"))
        }
        (Some(linux), Some(driver), Some(true)) => DmaBuf::Serves(format!(
            "dma-buf serves: Linux {linux}, open kernel modules {driver}, {nccl}"
        )),
        _ => DmaBuf::Unknown(unread),
    }
}

/// The first two numbers of a release.
fn linux_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn needs_module(one: &RankFacts) -> bool {
    one.has_gpus() && !one.health.rdma.is_empty()
}

/// The module that is loaded, by its name.
fn peer_module(one: &RankFacts) -> Option<&'static str> {
    let modules = one.health.modules.value.as_ref()?;
    ["nvidia_peermem", "nv_peer_mem", "nvidia_peer_memory"]
        .into_iter()
        .find(|name| modules.contains(*name))
}

fn module(one: &RankFacts) -> CheckOutcome {
    if !needs_module(one) {
        return CheckOutcome::none("GPUDirect RDMA needs a GPU and an RDMA device");
    }
    if one.health.modules.value.is_none() {
        return CheckOutcome::none(one.health.modules.why.clone());
    }
    let neither = "neither nvidia_peermem nor nv_peer_mem is loaded";
    let why = match (peer_module(one), dma_buf(one)) {
        (Some(name), _) => return CheckOutcome::ok(format!("{name} is loaded")),
        (None, DmaBuf::Serves(how)) => return CheckOutcome::ok(format!("{neither}, and {how}")),
        (None, DmaBuf::Not(why)) => format!("no dma-buf: {why}"),
        (None, DmaBuf::Unknown(why)) => format!("whether dma-buf serves is not known: {why}"),
    };
    CheckOutcome::warning(
        format!("{neither}; {why}"),
        "modprobe nvidia-peermem; without it NCCL needs dma-buf (open kernel modules, Linux 5.12, NCCL 2.13), else data go \
         through host memory and PXN is off: see 'GPU Direct RDMA' in NCCL's log",
    )
}

fn module_name(one: &RankFacts) -> CheckOutcome {
    let (Ok((_, version)), true) = (&one.nccl, needs_module(one)) else {
        return CheckOutcome::none("it takes NCCL, a GPU and an RDMA device");
    };
    let knows_old = ["nv_mem", "nv_mem_nc"]
        .iter()
        .any(|name| one.health.peer_memory.contains(*name));
    match peer_module(one) {
        None => CheckOutcome::none("no module is loaded"),
        Some(module) if *version <= OLD_NAME_ONLY && module == "nvidia_peermem" && !knows_old => {
            without(
                dma_buf(one),
                format!(
                    "NCCL {version} looks for nv_mem in /sys/kernel/mm/memory_peers, where it is not"
                ),
                "use NCCL 2.23 or newer, which knows nvidia-peermem's new name: this one says 'GPU Direct RDMA Disabled'",
            )
        }
        Some(module) => CheckOutcome::ok(format!("NCCL {version} knows {module}")),
    }
}

/// What the lack of the module comes to, where dma-buf may serve.
fn without(dma_buf: DmaBuf, lack: String, remedy: &str) -> CheckOutcome {
    match dma_buf {
        DmaBuf::Serves(how) => CheckOutcome::ok(format!("{lack}, but {how}")),
        DmaBuf::Unknown(why) => CheckOutcome::warning(
            format!("{lack}; whether dma-buf serves is not known: {why}"),
            remedy,
        ),
        DmaBuf::Not(_) => CheckOutcome::failure(lack, remedy),
    }
}

fn module_same(job: &[RankFacts]) -> CheckOutcome {
    let remedy =
        "load nvidia-peermem on each node (modprobe nvidia-peermem): one node without it slows all";
    let known = |one: &RankFacts| {
        let is_known = needs_module(one) && one.health.modules.value.is_some();
        is_known.then(|| peer_module(one).unwrap_or(NONE).to_owned())
    };
    let verdict = same(job, "peer memory module", known, remedy, true);
    let CheckOutcome::Failure { evidence, .. } = verdict else {
        return verdict;
    };
    // The worst of the ranks without it decides; where each has one, names differ, and all count.
    let lacks = |one: &&RankFacts| known(one).as_deref() == Some(NONE);
    let lacking: Vec<&RankFacts> = job.iter().filter(lacks).collect();
    let ranks = if lacking.is_empty() {
        job.iter().collect()
    } else {
        lacking
    };
    let worst = |dma_buf: &DmaBuf| match dma_buf {
        DmaBuf::Serves(_) => 0,
        DmaBuf::Unknown(_) => 1,
        DmaBuf::Not(_) => 2,
    };
    match ranks.into_iter().map(dma_buf).max_by_key(worst) {
        Some(dma_buf) => without(dma_buf, evidence, remedy),
        None => CheckOutcome::failure(evidence, remedy),
    }
}
