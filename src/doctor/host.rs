//! The node: limits, shared memory, processors, kernel.

use super::{check::Check, compare::list, outcome::CheckOutcome};
use crate::facts::{health::UNLIMITED, ranks::RankFacts};
use crate::units::counted;

pub(super) const CHECKS: &[Check] = &[
    Check::per_process(
        "host.memlock",
        "memory that may be pinned, in this step",
        memlock,
    ),
    Check::per_process("host.nofile", "files and sockets that may be open", nofile),
    Check::per_process("host.stack", "the stack limit", stack),
    Check::per_process("host.shm", "the size of /dev/shm", shm),
    Check::per_process("host.cpus", "processors that this process may run on", cpus),
    Check::across_job(
        "host.cpus-shared",
        "each rank of a node has a processor of its own",
        cpus_shared,
    ),
    Check::per_process(
        "host.numa-balancing",
        "automatic NUMA balancing",
        numa_balancing,
    ),
    Check::per_process(
        "host.remove-ipc",
        "systemd leaves shared memory alone",
        remove_ipc,
    ),
    Check::per_process("host.iommu", "no IOMMU between GPUs and NICs", iommu),
    Check::per_process("host.acs", "PCI bridges let peers talk directly", acs),
    Check::per_process(
        "host.container",
        "a container has the device files of GPUs and adapters",
        container,
    ),
];

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Formats a limit in bytes.
fn format_limit(limit: u64) -> String {
    if limit == UNLIMITED {
        "unlimited".into()
    } else {
        format_bytes(limit)
    }
}

/// Formats bytes in the largest unit that fits, with one decimal: `64 MiB`.
pub(super) fn format_bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => (1, "bytes"),
        1024..MIB => (1024, "KiB"),
        MIB..GIB => (MIB, "MiB"),
        GIB..TIB => (GIB, "GiB"),
        TIB.. => (TIB, "TiB"),
    };
    let value = (bytes as f64 / unit as f64 * 10.0).round() / 10.0;
    format!("{value} {name}")
}

fn memlock(process: &RankFacts) -> CheckOutcome {
    /// Below this not even a few queue pairs fit.
    const ENOUGH: u64 = 64 * MIB;
    let health = &process.health;
    let Some(bytes) = health.memlock.value else {
        return CheckOutcome::not_applicable(health.memlock.why.clone());
    };
    let limit = format_limit(bytes);
    if health.pins_freely && bytes != UNLIMITED {
        return CheckOutcome::ok(format!(
            "{limit}, but the limit does not apply: the process has CAP_IPC_LOCK"
        ));
    }
    if bytes >= ENOUGH {
        return CheckOutcome::ok(limit);
    }
    let has_rdma = !health.rdma.is_empty();
    CheckOutcome::finding(
        has_rdma,
        format!("only {limit} may be pinned"),
        "ulimit -l unlimited; under Slurm LimitMEMLOCK=infinity for slurmd and \
         PropagateResourceLimitsExcept=MEMLOCK, in Docker --ulimit memlock=-1",
    )
}

fn nofile(process: &RankFacts) -> CheckOutcome {
    /// NCCL opens several files per peer and channel.
    const ENOUGH: u64 = 4096;
    let limit = &process.health.nofile;
    match limit.value {
        None => CheckOutcome::not_applicable(limit.why.clone()),
        Some(UNLIMITED) => CheckOutcome::ok("unlimited"),
        Some(files) if files >= ENOUGH => CheckOutcome::ok(files.to_string()),
        Some(files) => CheckOutcome::warning(
            format!("only {files} files may be open"),
            "ulimit -n 65536: alltoall opens sockets for each peer, and otherwise fails with 'Too \
             many open files'",
        ),
    }
}

fn stack(process: &RankFacts) -> CheckOutcome {
    /// The stack that the C library gives threads if the limit is none.
    const TOO_LITTLE: u64 = 2 * MIB;
    let limit = &process.health.stack;
    match limit.value {
        None => CheckOutcome::not_applicable(limit.why.clone()),
        Some(bytes) if bytes <= TOO_LITTLE => CheckOutcome::warning(
            format!("the stack of a thread is only {}", format_limit(bytes)),
            "ulimit -s 8192, in Docker --ulimit stack=67108864: threads get a stack of this size, \
             and those of NCCL may overflow it",
        ),
        Some(UNLIMITED) => CheckOutcome::warning(
            "the stack is unlimited",
            "ulimit -s 8192, in Docker --ulimit stack=67108864: with an unlimited stack the C \
             library gives threads 2 MiB each, and those of NCCL may overflow",
        ),
        Some(bytes) => CheckOutcome::ok(format_limit(bytes)),
    }
}

fn shm(process: &RankFacts) -> CheckOutcome {
    const TOO_LITTLE: u64 = 64 * MIB;
    const ENOUGH: u64 = GIB;
    let size = &process.health.shm_size;
    let Some(bytes) = size.value else {
        return CheckOutcome::not_applicable(size.why.clone());
    };
    let evidence = format!("/dev/shm holds {}", format_bytes(bytes));
    if bytes >= ENOUGH {
        return CheckOutcome::ok(evidence);
    }
    CheckOutcome::finding(
        bytes <= TOO_LITTLE,
        evidence,
        "enlarge it: docker run --ipc=host or --shm-size=8g, in Kubernetes an emptyDir with \
         medium Memory on /dev/shm",
    )
}

fn cpus(process: &RankFacts) -> CheckOutcome {
    let (allowed, online) = (&process.health.cpus, &process.health.cpus_online);
    let (Some(allowed_cpus), Some(online_cpus)) = (&allowed.value, &online.value) else {
        return CheckOutcome::not_applicable(format!("{}{}", allowed.why, online.why));
    };
    let (allowed, online) = (allowed_cpus.len(), online_cpus.len());
    if allowed != 1 || online < 2 {
        return CheckOutcome::ok(format!("{allowed} of {online}"));
    }
    CheckOutcome::warning(
        format!("this process may run on only 1 of {online} processors"),
        "srun --cpus-per-task=N (Slurm 22.05 to 23.02 ignore the one given to sbatch), mpirun \
         --bind-to none: NCCL's proxy threads need a processor of their own",
    )
}

fn cpus_shared(job: &[RankFacts]) -> CheckOutcome {
    for process in job {
        let Some(cpus) = &process.health.cpus.value else {
            continue;
        };
        let later_sharers = job.iter().filter(|other| {
            other.rank > process.rank
                && other.node == process.node
                && other.health.cpus.value.as_ref() == Some(cpus)
        });
        let sharers = 1 + later_sharers.count();
        if sharers > 1 && cpus.len() < sharers {
            return CheckOutcome::warning(
                format!(
                    "{sharers} ranks on {} share {}",
                    process.host,
                    counted(cpus.len(), "processor")
                ),
                "request more with --cpus-per-task, or unbind: --cpu-bind=none, mpirun --bind-to \
                 none",
            );
        }
    }
    if job.len() == 1 {
        CheckOutcome::not_applicable("there is only one process")
    } else {
        CheckOutcome::ok("no rank has to wait for a processor of another one")
    }
}

fn numa_balancing(process: &RankFacts) -> CheckOutcome {
    let is_on = &process.health.numa_balancing;
    match is_on.value {
        None => CheckOutcome::not_applicable(is_on.why.clone()),
        Some(false) => CheckOutcome::ok("off"),
        Some(true) if !process.has_gpus() => CheckOutcome::ok("on, and there is no GPU"),
        Some(true) => CheckOutcome::warning(
            "kernel.numa_balancing is on",
            "sysctl kernel.numa_balancing=0: NUMA balancing migrates pages during GPU copies, \
             which shows as outliers",
        ),
    }
}

fn remove_ipc(process: &RankFacts) -> CheckOutcome {
    let Some(setting) = &process.health.remove_ipc.value else {
        return CheckOutcome::not_applicable(process.health.remove_ipc.why.clone());
    };
    let value = if setting.is_on { "yes" } else { "no" };
    let evidence = format!("RemoveIPC={value} ({})", setting.set_by);
    if !setting.is_on {
        CheckOutcome::ok(evidence)
    } else if !process.is_in_slurm_job() {
        CheckOutcome::not_applicable("it only matters in Slurm jobs, and this is not one")
    } else if process.health.is_system_user {
        CheckOutcome::ok(format!("{evidence}, but root and system users are exempt"))
    } else {
        CheckOutcome::warning(
            evidence,
            "set RemoveIPC=no in logind.conf: systemd deletes NCCL's files in /dev/shm when the \
             last session of the user ends",
        )
    }
}

/// Returns the parameter that told the kernel to pass addresses through.
fn passthrough_parameter(cmdline: &str) -> Option<&str> {
    cmdline
        .split_whitespace()
        .find(|parameter| match parameter.split_once('=') {
            Some(("iommu", values)) => values.split(',').any(|value| value == "pt"),
            Some(("iommu.passthrough", value)) => ["1", "y", "Y", "on"].contains(&value),
            _ => false,
        })
}

/// Checks the IOMMU: the types of the devices' groups count; if there are none, the kernel's
/// command line does.
fn iommu(process: &RankFacts) -> CheckOutcome {
    let iommu = &process.health.iommu;
    if !process.has_gpus() {
        return CheckOutcome::not_applicable("there is no NVIDIA device");
    }
    if !iommu.has_groups {
        return CheckOutcome::ok("no IOMMU groups");
    }
    let translated = iommu.translated();
    let evidence = if !iommu.devices.is_empty() {
        if translated.is_empty() {
            let devices: Vec<&String> = iommu.devices.keys().collect();
            return CheckOutcome::ok(format!("passed through for {}", list(&devices)));
        }
        format!("the IOMMU translates for {}", list(&translated))
    } else {
        let cmdline = process.health.cmdline.value.as_deref();
        if let Some(parameter) = passthrough_parameter(cmdline.unwrap_or_default()) {
            return CheckOutcome::ok(format!("passed through ({parameter})"));
        }
        if !iommu.types.is_empty() && !iommu.translates_some() {
            return CheckOutcome::ok("passed through for all groups");
        }
        "the IOMMU translates (/sys/kernel/iommu_groups has groups, and the kernel was not told \
         iommu=pt)"
            .into()
    };
    CheckOutcome::warning(
        evidence,
        "boot with iommu=pt or without an IOMMU: otherwise GPUDirect between GPU and NIC is slow \
         or fails; in a virtual machine the host decides",
    )
}

fn acs(process: &RankFacts) -> CheckOutcome {
    if !process.has_gpus() {
        return CheckOutcome::not_applicable("there is no NVIDIA device");
    }
    let acs = &process.health.acs;
    match &acs.value {
        None => CheckOutcome::not_applicable(acs.why.clone()),
        Some(bridges) if bridges.is_empty() => CheckOutcome::ok("no bridge redirects"),
        Some(bridges) => CheckOutcome::warning(
            format!(
                "ACS redirects peer-to-peer traffic to the root on {}, such as {}",
                counted(bridges.len(), "PCI bridge"),
                bridges[0]
            ),
            "disable ACS in the firmware, or with setpci on each bridge at boot: it halves \
             GPUDirect and PCIe bandwidth",
        ),
    }
}

fn container(process: &RankFacts) -> CheckOutcome {
    let health = &process.health;
    let Some(evidence) = &health.container else {
        return CheckOutcome::not_applicable("this is not a container");
    };
    let has_gpus = health.nvidia.is_some();
    let lacks_driver = has_gpus && health.driver.value.is_none();
    let lacks_gpus = has_gpus && health.gpu_files.is_empty();
    let lacks_adapters = !health.rdma.is_empty() && health.verbs.is_empty();
    let missing = if lacks_driver {
        "the driver is not visible"
    } else if lacks_gpus {
        "no GPU has a device file (/dev/nvidia0 …)"
    } else if lacks_adapters {
        "/dev/infiniband is empty"
    } else {
        return CheckOutcome::ok(format!(
            "running in a container ({evidence}); device files are visible"
        ));
    };
    CheckOutcome::failure(
        format!("running in a container ({evidence}), in which {missing}"),
        "start it with its devices: --gpus all or --nv, --device=/dev/infiniband, \
         MELLANOX_VISIBLE_DEVICES=all with Enroot; scripts/container.sh does",
    )
}
