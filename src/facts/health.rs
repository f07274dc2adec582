//! What a process knows about the health of its node, for `pxnbench doctor`: limits, processors,
//! modules, GPUs, adapters, interfaces and Slurm's variables. Files are read below a root, so that
//! a copied tree reads like the machine it came from; for what cannot be read there is a reason,
//! never a guess.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    acs, container,
    fabric::{self, Interface, RdmaPort},
    iommu::{self, Iommu},
    logind::{self, RemoveIpc},
    named, nvidia, plugins, procfs, rdma, slurm,
    tree::{names, reading},
    verbs::{self, Libibverbs},
};
use crate::{
    env::Env,
    input::{self, InputKind},
    levels::conf::NcclSettings,
    native::nvml::{Inventory, Reading},
};

pub use procfs::UNLIMITED;

/// The variables of Slurm and the launcher that are kept: counts and choices, no secret.
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

/// The facts of one process about itself and its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeHealth {
    /// Environment variables, of a short list only.
    pub env: BTreeMap<String, String>,
    /// Soft limit on the bytes that may be pinned.
    pub memlock: Reading<u64>,
    /// Whether that limit does not apply, since the process has CAP_IPC_LOCK on the node itself.
    pub pins_freely: bool,
    /// Soft limit on the number of open files.
    pub nofile: Reading<u64>,
    /// Soft limit on the bytes of a stack.
    pub stack: Reading<u64>,
    /// Size of /dev/shm in bytes, used or not.
    pub shm_size: Reading<u64>,
    /// Bytes of the node's memory.
    pub memory: Reading<u64>,
    /// Processors that this process may run on.
    pub cpus: Reading<BTreeSet<u32>>,
    /// Processors of the node that are online.
    pub cpus_online: Reading<BTreeSet<u32>>,
    /// The kernel's release, such as `5.15.0-91-generic`.
    pub kernel: Reading<String>,
    /// Kernel modules that are loaded.
    pub modules: Reading<BTreeSet<String>>,
    /// Clients of peer memory that are registered with the RDMA core, such as `nv_mem`.
    pub peer_memory: BTreeSet<String>,
    /// The IOMMU, and the devices that it translates for.
    pub iommu: Iommu,
    /// The kernel's command line.
    pub cmdline: Reading<String>,
    /// Whether automatic NUMA balancing is on.
    pub numa_balancing: Reading<bool>,
    /// systemd's RemoveIPC.
    pub remove_ipc: Reading<RemoveIpc>,
    /// Whether the user is root or a system user, which RemoveIPC leaves alone.
    pub is_system_user: bool,
    /// PCI bridges that redirect peer traffic to the root (ACS).
    pub acs: Reading<Vec<String>>,
    /// The evidence that this is a container.
    pub container: Option<String>,
    /// The evidence that the node has an NVIDIA device.
    pub nvidia: Option<String>,
    /// Device files of GPUs.
    pub gpu_files: Vec<String>,
    /// The driver's version, from /proc.
    pub driver: Reading<String>,
    /// Whether the driver's kernel modules are the open ones.
    pub open_modules: Reading<bool>,
    /// Device files of IMEX channels, through which nodes of one NVLink cluster share memory.
    pub imex: Vec<String>,
    /// NVML's inventory, or why there is none.
    pub nvml: Reading<Inventory>,
    /// RDMA ports.
    pub rdma: Vec<RdmaPort>,
    /// Device files under /dev/infiniband.
    pub verbs: Vec<String>,
    /// The library that uses them.
    pub libibverbs: Option<Libibverbs>,
    /// PCI addresses of InfiniBand controllers.
    pub infiniband_controllers: Reading<Vec<String>>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Files of network plugins that the loader finds by name.
    pub plugins: Vec<String>,
    /// The plugins that NCCL_NET_PLUGIN names, each with its file if that exists.
    pub plugins_named: BTreeMap<String, Option<String>>,
    /// Why what a variable names cannot be used: a file, a folder or a plugin, by variable.
    pub unusable: BTreeMap<String, String>,
    /// Slurm's KillOnBadExit, known only to the first rank.
    pub kill_on_bad_exit: Reading<bool>,
}

/// Gathers the facts of this process. `recorded` is a file with NVML's answers, read instead of
/// asking NVML; `settings` are those of NCCL in force.
pub fn gather(
    root: &Path,
    env: Env,
    recorded: Option<&Path>,
    settings: &NcclSettings,
) -> NodeHealth {
    let net_plugin = settings.get("NCCL_NET_PLUGIN").unwrap_or_default();
    NodeHealth {
        env: kept_variables(env),
        memlock: procfs::limit(root, "Max locked memory"),
        pins_freely: procfs::pins_freely(root),
        nofile: procfs::limit(root, "Max open files"),
        stack: procfs::limit(root, "Max stack size"),
        shm_size: procfs::shm_size(root),
        memory: procfs::memory(root),
        cpus: procfs::allowed_cpus(root),
        cpus_online: procfs::online_cpus(root),
        kernel: procfs::kernel_release(root),
        modules: procfs::modules(root),
        peer_memory: BTreeSet::from_iter(names(&root.join("sys/kernel/mm/memory_peers"))),
        iommu: iommu::iommu(root),
        cmdline: reading(root, "proc/cmdline"),
        numa_balancing: procfs::numa_balancing(root),
        remove_ipc: logind::remove_ipc(root),
        is_system_user: procfs::is_system_user(root),
        acs: acs::redirecting_bridges(root),
        container: container::evidence(root),
        nvidia: nvidia::hardware(root),
        gpu_files: nvidia::device_files(root),
        driver: nvidia::driver_version(root),
        open_modules: nvidia::has_open_modules(root),
        imex: names(&root.join("dev/nvidia-caps-imex-channels")),
        nvml: nvml(root, recorded),
        rdma: fabric::rdma_ports(root),
        verbs: names(&root.join("dev/infiniband")),
        libibverbs: verbs::libibverbs(root, env),
        infiniband_controllers: rdma::controllers(root),
        interfaces: fabric::interfaces(root),
        plugins: plugins::installed(root, env),
        plugins_named: plugins::named(root, env, net_plugin),
        unusable: named::unusable(root, env, settings),
        kill_on_bad_exit: slurm::kill_on_bad_exit(root, env),
    }
}

fn kept_variables(env: Env) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for name in KEPT {
        if let Some(value) = env(name) {
            kept.insert(name.to_owned(), value);
        }
    }
    kept
}

/// Returns NVML's inventory, from the file `recorded` or from NVML itself; there is no NVML to ask
/// about a copied tree.
fn nvml(root: &Path, recorded: Option<&Path>) -> Reading<Inventory> {
    let inventory = match recorded {
        Some(file) => input::read_text(file, InputKind::Json)
            .map_err(|error| format!("{}: {error}", file.display()))
            .and_then(|text| Inventory::from_json(&text)),
        None if root != Path::new("/") => Err("a copied tree has no NVML".into()),
        None => Inventory::read(),
    };
    inventory.map_or_else(Reading::none, Reading::of)
}
