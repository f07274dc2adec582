//! What GPUDirect RDMA needs of the kernel: a module for peer memory, or dma-buf, which can replace
//! it.

use super::{
    check::Check,
    compare::{Difference, NONE, same_everywhere},
    outcome::CheckOutcome,
};
use crate::{facts::ranks::RankFacts, levels::reading};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process(
        "gdr.module",
        "a kernel module for GPUDirect RDMA, or dma-buf",
        module,
    ),
    Check::per_process(
        "gdr.module-name",
        "this NCCL knows the module's name",
        module_name,
    ),
    Check::across_job(
        "gdr.module-same",
        "the same module on all nodes",
        module_same,
    ),
];

/// The kernel modules for peer memory, the newest name first.
const MODULES: [&str; 3] = ["nvidia_peermem", "nv_peer_mem", "nvidia_peer_memory"];

/// The last NCCL that does not know the module's new name.
const OLD_NAME_ONLY: i32 = 22203;

/// The versions from which dma-buf works: NCCL, Linux, and the first driver with open kernel
/// modules.
const DMA_BUF_NCCL: i32 = 21300;
const DMA_BUF_LINUX: (u32, u32) = (5, 12);
const DMA_BUF_DRIVER: u32 = 515;

/// The ability of dma-buf to replace the module, judged by versions only. The order is from best to
/// worst.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DmaBuf {
    /// It can, with the evidence.
    Usable(String),
    /// Something that it depends on cannot be read.
    Unknown(String),
    /// Something rules it out.
    RuledOut(String),
}

impl DmaBuf {
    fn of(process: &RankFacts) -> DmaBuf {
        let enabled = process.settings.get("NCCL_DMABUF_ENABLE");
        if enabled.and_then(reading::integer) == Some(0) {
            return DmaBuf::RuledOut("NCCL_DMABUF_ENABLE=0".into());
        }
        let nccl = match &process.nccl {
            Ok(nccl) => nccl.version,
            Err(_) => return DmaBuf::Unknown("no libnccl was found".into()),
        };
        if nccl < DMA_BUF_NCCL {
            return DmaBuf::RuledOut(format!("NCCL {nccl} does not support it"));
        }
        let health = &process.health;
        if health.open_modules.value == Some(false) {
            return DmaBuf::RuledOut("the driver's kernel modules are not the open ones".into());
        }
        let linux = health.kernel.value.as_deref();
        if let Some(linux) = linux.filter(|linux| is_older_linux(linux)) {
            return DmaBuf::RuledOut(format!("Linux {linux} is older than 5.12"));
        }
        let driver = health.driver.value.as_deref();
        if let Some(driver) = driver.filter(|driver| is_older_driver(driver)) {
            return DmaBuf::RuledOut(format!("driver {driver} is older than {DMA_BUF_DRIVER}"));
        }
        match (linux, driver, health.open_modules.value) {
            (Some(linux), Some(driver), Some(true)) => DmaBuf::Usable(format!(
                "dma-buf can be used: Linux {linux}, open kernel modules {driver}, NCCL {nccl}"
            )),
            _ => DmaBuf::Unknown(unread_facts(process)),
        }
    }
}

/// Returns whether the release of Linux is too old for dma-buf; one that is no version is not.
fn is_older_linux(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next_number = || numbers.next()?.parse::<u32>().ok();
    match (next_number(), next_number()) {
        (Some(major), Some(minor)) => (major, minor) < DMA_BUF_LINUX,
        _ => false,
    }
}

fn is_older_driver(version: &str) -> bool {
    let major = version.split('.').next().unwrap_or_default();
    major.parse().is_ok_and(|major: u32| major < DMA_BUF_DRIVER)
}

/// Returns why the facts about dma-buf could not be read.
fn unread_facts(process: &RankFacts) -> String {
    let health = &process.health;
    let mut reasons = vec![
        health.kernel.why.as_str(),
        health.driver.why.as_str(),
        health.open_modules.why.as_str(),
    ];
    reasons.retain(|why| !why.is_empty());
    reasons.join("; ")
}

fn needs_module(process: &RankFacts) -> bool {
    process.has_gpus() && !process.health.rdma.is_empty()
}

/// Returns the name of the module that is loaded.
fn peer_module(process: &RankFacts) -> Option<&'static str> {
    let modules = process.health.modules.value.as_ref()?;
    MODULES.into_iter().find(|name| modules.contains(*name))
}

fn module(process: &RankFacts) -> CheckOutcome {
    if !needs_module(process) {
        return CheckOutcome::not_applicable("GPUDirect RDMA needs a GPU and an RDMA device");
    }
    if process.health.modules.value.is_none() {
        return CheckOutcome::not_applicable(process.health.modules.why.clone());
    }
    if let Some(name) = peer_module(process) {
        return CheckOutcome::ok(format!("{name} is loaded"));
    }
    let neither = "neither nvidia_peermem nor nv_peer_mem is loaded";
    let evidence = match DmaBuf::of(process) {
        DmaBuf::Usable(evidence) => return CheckOutcome::ok(format!("{neither}, but {evidence}")),
        DmaBuf::RuledOut(why) => format!("{neither}; no dma-buf: {why}"),
        DmaBuf::Unknown(why) => {
            format!("{neither}; whether dma-buf can be used is unknown: {why}")
        }
    };
    CheckOutcome::warning(
        evidence,
        "modprobe nvidia-peermem: without it NCCL needs dma-buf (open kernel modules, Linux 5.12, \
         NCCL 2.13); otherwise data goes through host memory and PXN is off (see 'GPU Direct \
         RDMA' in NCCL's log)",
    )
}

fn module_name(process: &RankFacts) -> CheckOutcome {
    let (Ok(nccl), true) = (&process.nccl, needs_module(process)) else {
        return CheckOutcome::not_applicable("it needs NCCL, a GPU and an RDMA device");
    };
    let Some(module) = peer_module(process) else {
        return CheckOutcome::not_applicable("no module is loaded");
    };
    let version = nccl.version;
    let peer_memory = &process.health.peer_memory;
    let has_old_name = peer_memory.contains("nv_mem") || peer_memory.contains("nv_mem_nc");
    if version > OLD_NAME_ONLY || module != "nvidia_peermem" || has_old_name {
        return CheckOutcome::ok(format!("NCCL {version} knows {module}"));
    }
    outcome_without_module(
        DmaBuf::of(process),
        format!(
            "NCCL {version} looks for nv_mem in /sys/kernel/mm/memory_peers, which has no such \
             entry"
        ),
        "use NCCL 2.23 or newer, which knows the new name of nvidia-peermem: this one logs 'GPU \
         Direct RDMA Disabled'",
    )
}

/// Returns the outcome if the module is missing, which dma-buf may make up for.
fn outcome_without_module(dma_buf: DmaBuf, evidence: String, remedy: &str) -> CheckOutcome {
    match dma_buf {
        DmaBuf::Usable(usable) => CheckOutcome::ok(format!("{evidence}, but {usable}")),
        DmaBuf::Unknown(why) => CheckOutcome::warning(
            format!("{evidence}; whether dma-buf can be used is unknown: {why}"),
            remedy,
        ),
        DmaBuf::RuledOut(_) => CheckOutcome::failure(evidence, remedy),
    }
}

/// Returns the module of a process that needs one, if its modules are known.
fn known_module(process: &RankFacts) -> Option<String> {
    let is_known = needs_module(process) && process.health.modules.value.is_some();
    is_known.then(|| peer_module(process).unwrap_or(NONE).to_owned())
}

fn module_same(job: &[RankFacts]) -> CheckOutcome {
    let remedy = "load nvidia-peermem on each node (modprobe nvidia-peermem): one node without it \
                  slows down all";
    let difference = Difference {
        remedy,
        fails: true,
    };
    let outcome = same_everywhere(job, "peer memory module", known_module, difference);
    let CheckOutcome::Failure { evidence, .. } = outcome else {
        return outcome;
    };
    // The worst of the ranks without a module decides; if all have one, only the names differ, and
    // all ranks count.
    let mut ranks: Vec<&RankFacts> = job
        .iter()
        .filter(|process| known_module(process).as_deref() == Some(NONE))
        .collect();
    if ranks.is_empty() {
        ranks = job.iter().collect();
    }
    match ranks.into_iter().map(DmaBuf::of).max() {
        Some(worst) => outcome_without_module(worst, evidence, remedy),
        None => CheckOutcome::failure(evidence, remedy),
    }
}
