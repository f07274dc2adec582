//! What a process can say of its node's health, for `pxnbench doctor`: limits, processors, modules, GPUs, adapters, interfaces
//! and what Slurm told it. Files are read below a root, so that a copied tree reads as the machine it came from; what cannot
//! be read is a reason, never a guess.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    fabric::{self, Interface, RdmaPort},
    iommu::{self, Iommu},
    logind::{self, RemoveIpc},
    plugins, slurm,
    tree::names,
};
use crate::{
    env::Env,
    native::nvml::{Inventory, Reading},
};

/// What is kept of Slurm's and the launcher's environment: counts and choices, no secret.
const KEPT: [&str; 25] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPU_BIND",
    "SLURM_TRES_BIND",
    "SLURM_KILL_BAD_EXIT",
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_CPUS_ON_NODE",
    "SLURM_MPI_TYPE",
    "SLURM_EXPORT_ENV",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_NODELIST",
    "CUDA_VISIBLE_DEVICES",
    "MELLANOX_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
];

/// A soft limit.
pub type Limit = Reading<u64>;

/// What a limit is where there is none.
pub const UNLIMITED: u64 = u64::MAX;

/// What one process says of itself and its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeHealth {
    /// `NAME` to value, of a short list only.
    pub env: BTreeMap<String, String>,
    /// Bytes that may be pinned.
    pub memlock: Limit,
    /// Does that limit not count for this process, which has CAP_IPC_LOCK on the node itself?
    pub pins_freely: bool,
    /// Files that may be open.
    pub nofile: Limit,
    /// Bytes of a stack.
    pub stack: Limit,
    /// Bytes that /dev/shm may hold.
    pub shm: Reading<u64>,
    /// Bytes of the node's memory.
    pub memory: Reading<u64>,
    /// Processors that this process may run on.
    pub cpus: Reading<BTreeSet<u32>>,
    /// Processors of the node that are online.
    pub cpus_online: Reading<BTreeSet<u32>>,
    /// The kernel's release, as `5.15.0-91-generic`.
    pub kernel: Reading<String>,
    /// Kernel modules that are loaded.
    pub modules: Reading<BTreeSet<String>>,
    /// Clients of peer memory that are registered with the RDMA core, as `nv_mem`.
    pub peer_memory: BTreeSet<String>,
    /// The IOMMU, and whom it translates for.
    pub iommu: Iommu,
    /// The kernel's command line.
    pub cmdline: Reading<String>,
    /// Is automatic NUMA balancing on?
    pub numa_balancing: Reading<bool>,
    /// systemd's RemoveIPC.
    pub remove_ipc: Reading<RemoveIpc>,
    /// Is this a user whom it leaves alone: root, or one of the system's?
    pub is_system_user: bool,
    /// PCI bridges that redirect peer traffic upwards (ACS).
    pub acs: Reading<Vec<String>>,
    /// What says that this is a container.
    pub container: Option<String>,
    /// The evidence that the node has an NVIDIA device.
    pub nvidia: Option<String>,
    /// The driver's version, from /proc.
    pub driver: Reading<String>,
    /// Are the driver's kernel modules the open ones?
    pub open_modules: Reading<bool>,
    /// Channels of IMEX, through which nodes of one NVLink cluster share memory: device files.
    pub imex: Vec<String>,
    /// What NVML says, or why it says nothing.
    pub nvml: Reading<Inventory>,
    /// RDMA ports.
    pub rdma: Vec<RdmaPort>,
    /// Device files under /dev/infiniband.
    pub verbs: Vec<String>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Files of network plugins that the loader finds by name.
    pub plugins: Vec<String>,
    /// The plugins that NCCL_NET_PLUGIN names, each with its file where that is there.
    pub plugins_named: BTreeMap<String, Option<String>>,
    /// Slurm's KillOnBadExit; known to the first rank only.
    pub kill_on_bad_exit: Reading<bool>,
}

/// Gathers it. `recorded` is a file with NVML's answers, instead of asking NVML; `net_plugin` what NCCL_NET_PLUGIN is.
pub fn gather(
    root: &Path,
    env: Env,
    recorded: Option<&Path>,
    net_plugin: Option<&str>,
) -> NodeHealth {
    let limits =
        fs::read_to_string(root.join("proc/self/limits")).map_err(|error| error.to_string());
    let limit = |name: &str| limit(&limits, name);
    NodeHealth {
        env: KEPT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), env(name)?)))
            .collect(),
        memlock: limit("Max locked memory"),
        pins_freely: pins_freely(root),
        nofile: limit("Max open files"),
        stack: limit("Max stack size"),
        shm: shm(root),
        memory: memory(root),
        cpus: file(root, "proc/self/status").and(|status| allowed(&status)),
        cpus_online: file(root, "sys/devices/system/cpu/online").and(|list| cpus(&list)),
        kernel: file(root, "proc/sys/kernel/osrelease").and(|text| Ok(text.trim().to_owned())),
        modules: file(root, "proc/modules").and(|all| {
            Ok(all
                .lines()
                .filter_map(|line| line.split_whitespace().next())
                .map(str::to_owned)
                .collect())
        }),
        peer_memory: names(&root.join("sys/kernel/mm/memory_peers"))
            .into_iter()
            .collect(),
        iommu: iommu::iommu(root),
        cmdline: file(root, "proc/cmdline"),
        numa_balancing: file(root, "proc/sys/kernel/numa_balancing")
            .and(|word| Ok(word.trim() != "0")),
        remove_ipc: logind::remove_ipc(root),
        is_system_user: is_system_user(root),
        acs: super::acs::redirecting(root),
        container: super::container::evidence(root),
        nvidia: super::nvidia::hardware(root),
        driver: file(root, "proc/driver/nvidia/version").and(|text| driver(&text)),
        open_modules: file(root, "proc/driver/nvidia/version")
            .and(|text| Ok(text.contains("Open Kernel Module"))),
        imex: names(&root.join("dev/nvidia-caps-imex-channels")),
        nvml: nvml(root, recorded),
        rdma: fabric::rdma(root),
        verbs: names(&root.join("dev/infiniband")),
        interfaces: fabric::interfaces(root),
        plugins: plugins::all(root, env),
        plugins_named: net_plugin
            .map(|list| plugins::named(root, env, list))
            .unwrap_or_default(),
        kill_on_bad_exit: match env("SLURM_KILL_BAD_EXIT") {
            Some(_) => Reading::none("SLURM_KILL_BAD_EXIT tells"),
            None => slurm::kill_on_bad_exit(root, env),
        },
    }
}

fn file(root: &Path, path: &str) -> Reading<String> {
    match fs::read(root.join(path)) {
        Ok(bytes) => Reading::of(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Reading::none(format!("/{path}: {error}")),
    }
}

/// The soft limit of a line of /proc/self/limits.
fn limit(limits: &Result<String, String>, name: &str) -> Limit {
    let text = match limits {
        Ok(text) => text,
        Err(why) => return Reading::none(format!("/proc/self/limits: {why}")),
    };
    let soft = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    match soft.map(|word| (word, word.parse())) {
        Some(("unlimited", _)) => Reading::of(UNLIMITED),
        Some((_, Ok(bytes))) => Reading::of(bytes),
        _ => Reading::none(format!("/proc/self/limits has no {name}")),
    }
}

/// CAP_IPC_LOCK, and the node's own users: in a namespace of users, a capability counts there only.
fn pins_freely(root: &Path) -> bool {
    const IPC_LOCK: u64 = 1 << 14;
    let status = file(root, "proc/self/status").value.unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let has = effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & IPC_LOCK != 0);
    has && has_all_users(root)
}

/// Is its user one below 1000? systemd is built with that bound, which no file changes.
fn is_system_user(root: &Path) -> bool {
    const FIRST: u32 = 1000;
    let status = file(root, "proc/self/status").value.unwrap_or_default();
    let user = status.lines().find_map(|line| {
        line.strip_prefix("Uid:")?
            .split_whitespace()
            .next()?
            .parse::<u32>()
            .ok()
    });
    user.is_some_and(|user| user < FIRST) && has_all_users(root)
}

/// Are users numbered as on the node itself?
fn has_all_users(root: &Path) -> bool {
    let map = file(root, "proc/self/uid_map").value.unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The size of the file system on /dev/shm: its mount option, or half of the memory where it has none.
fn shm(root: &Path) -> Reading<u64> {
    file(root, "proc/self/mounts").and(|mounts| {
        let mut mounts = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mounts.rfind(|fields| fields.get(1) == Some(&"/dev/shm"));
        let options = mount
            .as_ref()
            .and_then(|fields| fields.get(3))
            .ok_or("nothing is mounted on /dev/shm")?;
        match options
            .split(',')
            .find_map(|option| option.strip_prefix("size="))
        {
            Some(size) => kilobytes(size).ok_or_else(|| format!("/dev/shm has the size {size}")),
            None => memory(root)
                .value
                .map(|all| all / 2)
                .ok_or_else(|| "/dev/shm has no size of its own".to_owned()),
        }
    })
}

/// A tmpfs size in bytes: `65536k`, `64m`, `1g`.
fn kilobytes(size: &str) -> Option<u64> {
    let at = size
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(size.len());
    let factor = match &size[at..] {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    size[..at].parse::<u64>().ok()?.checked_mul(factor)
}

fn memory(root: &Path) -> Reading<u64> {
    file(root, "proc/meminfo").and(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes
            .map(|kb| kb.saturating_mul(1024))
            .ok_or_else(|| "/proc/meminfo has no MemTotal".into())
    })
}

fn allowed(status: &str) -> Result<BTreeSet<u32>, String> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpus(list.ok_or("/proc/self/status has no Cpus_allowed_list")?)
}

/// Linux's list of processors: `0-3,8`.
fn cpus(list: &str) -> Result<BTreeSet<u32>, String> {
    /// More processors than Linux is built for.
    const MOST: u32 = 1 << 16;
    let mut all = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if last < MOST => all.extend(first..=last),
            _ => return Err(format!("'{part}' is not a range of processors")),
        }
    }
    Ok(all)
}

/// The version in `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build …`.
fn driver(text: &str) -> Result<String, String> {
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let word = text
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().find(is_version));
    word.map(str::to_owned)
        .ok_or_else(|| "/proc/driver/nvidia/version names no version".into())
}

/// NVML's answers, from the file `recorded` or from NVML itself; another machine's tree has no NVML to ask.
fn nvml(root: &Path, recorded: Option<&Path>) -> Reading<Inventory> {
    let inventory = match recorded {
        Some(file) => fs::read_to_string(file)
            .map_err(|error| format!("{}: {error}", file.display()))
            .and_then(|text| Inventory::from_json(&text)),
        None if root != Path::new("/") => Err("a copied tree has no NVML".into()),
        None => Inventory::read(),
    };
    inventory.map_or_else(Reading::none, Reading::of)
}
