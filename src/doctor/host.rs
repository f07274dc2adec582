//! The node: limits, shared memory, processors, kernel.

use super::{Check, CheckOutcome, RankFacts, all, each, list};
use crate::facts::health::UNLIMITED;

pub(super) const CHECKS: &[Check] = &[
    each(
        "host.memlock",
        "memory that may be pinned, in this step",
        memlock,
    ),
    each("host.nofile", "files and sockets that may be open", nofile),
    each("host.stack", "the stack's limit", stack),
    each("host.shm", "room in /dev/shm", shm),
    each("host.cpus", "processors that this process may run on", cpus),
    all(
        "host.cpus-shared",
        "ranks of a node have processors of their own",
        cpus_shared,
    ),
    each(
        "host.numa-balancing",
        "automatic NUMA balancing",
        numa_balancing,
    ),
    each(
        "host.remove-ipc",
        "systemd leaves shared memory alone",
        remove_ipc,
    ),
    each("host.iommu", "no IOMMU between GPUs and NICs", iommu),
    each("host.acs", "PCI bridges let peers talk directly", acs),
    each(
        "host.container",
        "a container shows the GPUs' and adapters' device files",
        container,
    ),
];

/// A limit in bytes for a sentence.
fn shown(limit: u64) -> String {
    if limit == UNLIMITED {
        "unlimited".into()
    } else {
        rounded(limit)
    }
}

/// Bytes for a sentence: `64 MiB`.
pub(super) fn rounded(bytes: u64) -> String {
    let units = [
        (1_u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1, "bytes"),
    ];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1, "bytes"));
    let value = (bytes as f64 / unit as f64 * 10.0).round() / 10.0;
    format!("{value} {name}")
}

fn memlock(one: &RankFacts) -> CheckOutcome {
    /// Below this not even a few queue pairs fit.
    const ENOUGH: u64 = 64 << 20;
    match one.health.memlock.value {
        Some(bytes) if one.health.pins_freely && bytes != UNLIMITED => CheckOutcome::ok(format!(
            "{}, which does not count: the process has CAP_IPC_LOCK",
            shown(bytes)
        )),
        None => CheckOutcome::none(one.health.memlock.why.clone()),
        Some(bytes) if bytes < ENOUGH => {
            let evidence = format!("{} may be pinned", shown(bytes));
            let remedy = "ulimit -l unlimited; under Slurm LimitMEMLOCK=infinity for slurmd and \
                          PropagateResourceLimitsExcept=MEMLOCK, in Docker --ulimit memlock=-1";
            match one.health.rdma.is_empty() {
                true => CheckOutcome::warning(evidence, remedy),
                false => CheckOutcome::failure(evidence, remedy),
            }
        }
        Some(bytes) => CheckOutcome::ok(shown(bytes)),
    }
}

fn nofile(one: &RankFacts) -> CheckOutcome {
    /// NCCL opens several a peer and channel.
    const ENOUGH: u64 = 4096;
    match one.health.nofile.value {
        None => CheckOutcome::none(one.health.nofile.why.clone()),
        Some(files) if files < ENOUGH => CheckOutcome::warning(
            format!("{files} files may be open"),
            "ulimit -n 65536: alltoall opens sockets for each peer, and fails with 'Too many open files'",
        ),
        Some(UNLIMITED) => CheckOutcome::ok("unlimited"),
        Some(files) => CheckOutcome::ok(files.to_string()),
    }
}

fn stack(one: &RankFacts) -> CheckOutcome {
    match one.health.stack.value {
        None => CheckOutcome::none(one.health.stack.why.clone()),
        Some(UNLIMITED) => CheckOutcome::warning(
            "the stack is unlimited",
            "ulimit -s 8192: with an unlimited one the C library gives threads 2 MiB, and NCCL's may overflow",
        ),
        Some(bytes) => CheckOutcome::ok(shown(bytes)),
    }
}

fn shm(one: &RankFacts) -> CheckOutcome {
    const LITTLE: u64 = 64 << 20;
    const ENOUGH: u64 = 1 << 30;
    let remedy = "give more: docker run --shm-size=1g or --ipc=host, in Kubernetes an emptyDir of medium Memory on /dev/shm";
    match one.health.shm.value {
        None => CheckOutcome::none(one.health.shm.why.clone()),
        Some(bytes) if bytes <= LITTLE => {
            CheckOutcome::failure(format!("/dev/shm holds {}", rounded(bytes)), remedy)
        }
        Some(bytes) if bytes < ENOUGH => {
            CheckOutcome::warning(format!("/dev/shm holds {}", rounded(bytes)), remedy)
        }
        Some(bytes) => CheckOutcome::ok(format!("/dev/shm holds {}", rounded(bytes))),
    }
}

fn cpus(one: &RankFacts) -> CheckOutcome {
    let (Some(mine), Some(online)) = (&one.health.cpus.value, &one.health.cpus_online.value) else {
        return CheckOutcome::none(format!(
            "{}{}",
            one.health.cpus.why, one.health.cpus_online.why
        ));
    };
    match (mine.len(), online.len()) {
        (1, 2..) => CheckOutcome::warning(
            format!("this process may run on one processor of {}", online.len()),
            "srun --cpus-per-task=N (Slurm 22.05 to 23.02 lose sbatch's), mpirun --bind-to none: NCCL's proxy threads need one \
             of their own",
        ),
        (mine, online) => CheckOutcome::ok(format!("{mine} of {online}")),
    }
}

fn cpus_shared(job: &[RankFacts]) -> CheckOutcome {
    for one in job {
        let Some(mine) = &one.health.cpus.value else {
            continue;
        };
        let is_same = |other: &&RankFacts| {
            other.rank > one.rank
                && other.node == one.node
                && other.health.cpus.value.as_ref() == Some(mine)
        };
        let sharers = 1 + job.iter().filter(is_same).count();
        if sharers > 1 && mine.len() < sharers {
            return CheckOutcome::warning(
                format!(
                    "{sharers} ranks on {} share {} processors",
                    one.host,
                    mine.len()
                ),
                "ask for more with --cpus-per-task, or unbind: --cpu-bind=none, mpirun --bind-to none",
            );
        }
    }
    match job.len() {
        1 => CheckOutcome::none("there is one process only"),
        _ => CheckOutcome::ok("no rank has to wait for another one's processor"),
    }
}

fn numa_balancing(one: &RankFacts) -> CheckOutcome {
    match one.health.numa_balancing.value {
        None => CheckOutcome::none(one.health.numa_balancing.why.clone()),
        Some(true) if one.has_gpus() => CheckOutcome::warning(
            "kernel.numa_balancing is on",
            "sysctl kernel.numa_balancing=0: it moves pages under the GPU's copies, which shows as outliers",
        ),
        Some(is_on) => CheckOutcome::ok(if is_on {
            "on, and there is no GPU"
        } else {
            "off"
        }),
    }
}

fn remove_ipc(one: &RankFacts) -> CheckOutcome {
    let Some(set) = &one.health.remove_ipc.value else {
        return CheckOutcome::none(one.health.remove_ipc.why.clone());
    };
    let evidence = format!(
        "RemoveIPC={} ({})",
        if set.is_on { "yes" } else { "no" },
        set.by
    );
    match set.is_on {
        false => CheckOutcome::ok(evidence),
        true if one.env("SLURM_JOB_ID").is_none() => {
            CheckOutcome::none("it only matters in Slurm jobs, and this is not one")
        }
        true if one.health.is_system_user => CheckOutcome::ok(format!(
            "{evidence}, which leaves root and the system's users alone"
        )),
        true => CheckOutcome::warning(
            evidence,
            "set RemoveIPC=no in logind.conf: systemd deletes NCCL's files in /dev/shm when the user's last session ends",
        ),
    }
}

fn needs_peer_access(one: &RankFacts) -> bool {
    one.has_gpus()
}

/// Where the kernel was told to pass addresses through.
fn passes_through(cmdline: &str) -> Option<&str> {
    cmdline
        .split_whitespace()
        .find(|word| match word.split_once('=') {
            Some(("iommu", how)) => how.split(',').any(|how| how == "pt"),
            Some(("iommu.passthrough", how)) => ["1", "y", "Y", "on"].contains(&how),
            _ => false,
        })
}

/// The types of the groups say what is so; what the kernel was told counts where they say nothing of the devices.
fn iommu(one: &RankFacts) -> CheckOutcome {
    let iommu = &one.health.iommu;
    let translated = iommu.translated();
    let told = passes_through(one.health.cmdline.value.as_deref().unwrap_or_default());
    let evidence = match (iommu.devices.is_empty(), told) {
        _ if !needs_peer_access(one) => return CheckOutcome::none("there is no NVIDIA device"),
        _ if !iommu.has_groups => return CheckOutcome::ok("no IOMMU groups"),
        (false, _) if translated.is_empty() => {
            return CheckOutcome::ok(format!("passed through for {}", list(&iommu.devices.keys().collect::<Vec<_>>())));
        }
        (false, _) => format!("the IOMMU translates for {}", list(&translated)),
        (true, Some(word)) => return CheckOutcome::ok(format!("passed through ({word})")),
        (true, None) if !iommu.types.is_empty() && !iommu.translates_some() => {
            return CheckOutcome::ok("passed through for all groups");
        }
        (true, None) => {
            "the IOMMU translates (/sys/kernel/iommu_groups has groups, and the kernel was not told iommu=pt)".into()
        }
    };
    CheckOutcome::warning(
        evidence,
        "boot with iommu=pt or without one: GPUDirect between GPU and NIC is slow or fails; in a virtual machine the host decides",
    )
}

fn acs(one: &RankFacts) -> CheckOutcome {
    match &one.health.acs.value {
        _ if !needs_peer_access(one) => CheckOutcome::none("there is no NVIDIA device"),
        None => CheckOutcome::none(one.health.acs.why.clone()),
        Some(bridges) if bridges.is_empty() => CheckOutcome::ok("no bridge redirects"),
        Some(bridges) => CheckOutcome::warning(
            format!(
                "{} PCI bridges send peers' traffic up to the root (ACS), such as {}",
                bridges.len(),
                bridges[0]
            ),
            "disable ACS in the firmware, or with setpci on each bridge at boot: it halves GPUDirect and PCIe bandwidth",
        ),
    }
}

fn container(one: &RankFacts) -> CheckOutcome {
    let Some(evidence) = &one.health.container else {
        return CheckOutcome::none("this is not a container");
    };
    let health = &one.health;
    let remedy = "start it with its devices: --gpus all or --nv, --device=/dev/infiniband, MELLANOX_VISIBLE_DEVICES=all with enroot";
    let has_gpu = health.nvidia.is_some() && health.driver.value.is_none();
    let has_adapter = !health.rdma.is_empty() && health.verbs.is_empty();
    match (has_gpu, has_adapter) {
        (false, false) => CheckOutcome::ok(evidence.clone()),
        (true, _) => CheckOutcome::failure(
            format!("{evidence}, and the driver is not visible in it"),
            remedy,
        ),
        (_, true) => CheckOutcome::failure(
            format!("{evidence}, and /dev/infiniband is empty in it"),
            remedy,
        ),
    }
}
