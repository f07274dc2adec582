//! Driver, NCCL, its plugins, MPI, and what GPUDirect RDMA needs of the kernel.

use super::{Check, NONE, Subject, Verdict, all, each, list, same};

/// The last NCCL that does not know the module's new name.
const OLD_NAME_ONLY: i32 = 22203;

pub(super) const CHECKS: &[Check] = &[
    each("lib.driver", "the NVIDIA driver is loaded where there is a GPU", driver),
    all("lib.driver-same", "one driver version on all nodes", |job| {
        same(job, "driver", |one| Some(driver_version(one)), "install one driver on all nodes", false)
    }),
    each("lib.nvml", "NVML, which comes with the driver, answers", nvml),
    each("lib.nccl", "libnccl is found and can be loaded", nccl),
    all("lib.nccl-same", "one NCCL version on all ranks", |job| {
        let remedy = "load one NCCL everywhere: see NCCL_HOME and LD_LIBRARY_PATH of each node";
        same(job, "NCCL", |one| Some(loaded(one, |(_, version)| version.to_string())), remedy, true)
    }),
    all("lib.nccl-file", "one libnccl file on all ranks", |job| {
        let remedy = "two files of one version can differ in their build: load the same everywhere";
        same(job, "libnccl", |one| Some(loaded(one, |(file, _)| file.clone())), remedy, false)
    }),
    all("lib.plugin-same", "the same network plugins on all nodes", |job| {
        let remedy = "put the same plugin into LD_LIBRARY_PATH on all nodes, or set NCCL_NET_PLUGIN=none";
        same(job, "network plugin", |one| Some(plugins(one)), remedy, true)
    }),
    each("lib.plugin", "the network plugin that is named is there", plugin),
    each("mpi.world", "all processes that the launcher started are one MPI job", world),
    all("mpi.same", "one MPI library on all ranks", |job| {
        let known = |one: &Subject| (!one.mpi.is_empty()).then(|| one.mpi.clone());
        same(job, "MPI", known, "start all ranks with one MPI", true)
    }),
    each("gdr.module", "a kernel module for GPUDirect RDMA", module),
    each("gdr.module-name", "this NCCL knows the module's name", module_name),
    all("gdr.module-same", "the module on all nodes", |job| {
        let remedy = "load nvidia-peermem on each node (modprobe nvidia-peermem): one node without it slows all";
        let known = |one: &Subject| {
            let is_known = needs_module(one) && one.health.modules.value.is_some();
            is_known.then(|| peer_module(one).unwrap_or(NONE).to_owned())
        };
        same(job, "peer memory module", known, remedy, true)
    }),
];

fn driver_version(one: &Subject) -> String {
    one.health.driver.value.clone().unwrap_or_else(|| NONE.into())
}

/// What `of` says of the libnccl that would be loaded.
fn loaded(one: &Subject, of: impl Fn(&(String, i32)) -> String) -> String {
    one.nccl.as_ref().map_or_else(|_| NONE.into(), of)
}

fn driver(one: &Subject) -> Verdict {
    match (&one.health.driver.value, &one.health.nvidia) {
        (Some(version), _) => Verdict::ok(format!("driver {version}")),
        (None, None) => Verdict::none("there is no NVIDIA device"),
        (None, Some(device)) => Verdict::failure(
            format!("{device}, but {}", one.health.driver.why),
            "load the driver (modprobe nvidia); in a container start it with GPUs (--nv, --gpus all)",
        ),
    }
}

fn nvml(one: &Subject) -> Verdict {
    match &one.health.nvml.value {
        Some(nvml) => Verdict::ok(format!("{} GPUs", nvml.gpus.len())),
        None if one.health.nvidia.is_none() => Verdict::none("there is no NVIDIA device"),
        None => Verdict::failure(
            one.health.nvml.why.clone(),
            "libnvidia-ml.so.1 of the driver's own version must be found; nvidia-smi says the same",
        ),
    }
}

fn nccl(one: &Subject) -> Verdict {
    match &one.nccl {
        Ok((file, version)) => Verdict::ok(format!("{file}, version {version}")),
        Err(_) if !one.has_gpus() => Verdict::none("there is no NVIDIA device"),
        Err(why) => Verdict::failure(why.clone(), "load NCCL's module, or set NCCL_HOME to its folder"),
    }
}

fn plugins(one: &Subject) -> String {
    let names = one.health.plugins.iter().filter_map(|path| path.rsplit('/').next()).collect::<Vec<_>>();
    if names.is_empty() { NONE.into() } else { list(&names) }
}

fn plugin(one: &Subject) -> Verdict {
    let Some(named) = one.settings.get("NCCL_NET_PLUGIN").filter(|name| !name.is_empty() && *name != "none") else {
        return Verdict::none("NCCL_NET_PLUGIN names none");
    };
    // A name stands for itself, for libnccl-net-NAME.so, or for a path; several are separated by commas.
    let found = |name: &str| {
        let is_it = |path: &String| {
            let file = path.rsplit('/').next().unwrap_or_default();
            file == name || file == format!("libnccl-net-{name}.so") || path == name
        };
        name.starts_with('/') || one.health.plugins.iter().any(is_it)
    };
    match named.split(',').any(found) {
        true => Verdict::ok(format!("NCCL_NET_PLUGIN={named}")),
        false => Verdict::warning(
            format!("NCCL_NET_PLUGIN={named}, and no folder of LD_LIBRARY_PATH has it"),
            "put the plugin's folder into LD_LIBRARY_PATH: NCCL falls back to its own network, without an error",
        ),
    }
}

fn world(one: &Subject) -> Verdict {
    match one.started() {
        Some((started, who, variable)) if started > 1 && one.world == 1 => Verdict::failure(
            format!("{who} started {started} processes ({variable}), and MPI sees one: each would run alone"),
            "under srun name the PMI that fits the MPI: --mpi=pmix or --mpi=pmi2 (srun --mpi=list); else take the mpirun of the MPI \
             that pxnbench is built with",
        ),
        Some((started, ..)) => Verdict::ok(format!("{} of {started} processes", one.world)),
        None => Verdict::ok(format!("{} processes", one.world)),
    }
}

fn needs_module(one: &Subject) -> bool {
    one.has_gpus() && !one.health.rdma.is_empty()
}

/// The module that is loaded, by its name.
fn peer_module(one: &Subject) -> Option<&'static str> {
    let modules = one.health.modules.value.as_ref()?;
    ["nvidia_peermem", "nv_peer_mem", "nvidia_peer_memory"].into_iter().find(|name| modules.contains(*name))
}

fn module(one: &Subject) -> Verdict {
    if !needs_module(one) {
        return Verdict::none("GPUDirect RDMA needs a GPU and an RDMA device");
    }
    if one.health.modules.value.is_none() {
        return Verdict::none(one.health.modules.why.clone());
    }
    match peer_module(one) {
        Some(name) => Verdict::ok(format!("{name} is loaded")),
        None => Verdict::warning(
            "neither nvidia_peermem nor nv_peer_mem is loaded",
            "modprobe nvidia-peermem; without it NCCL needs dma-buf (open kernel modules, Linux 5.12, NCCL 2.13), else data go \
             through host memory and PXN is off: see 'GPU Direct RDMA' in NCCL's log",
        ),
    }
}

fn module_name(one: &Subject) -> Verdict {
    let (Ok((_, version)), true) = (&one.nccl, needs_module(one)) else {
        return Verdict::none("it takes NCCL, a GPU and an RDMA device");
    };
    let knows_old = ["nv_mem", "nv_mem_nc"].iter().any(|name| one.health.peer_memory.contains(*name));
    match peer_module(one) {
        None => Verdict::none("no module is loaded"),
        Some(module) if *version <= OLD_NAME_ONLY && module == "nvidia_peermem" && !knows_old => Verdict::failure(
            format!("NCCL {version} looks for nv_mem in /sys/kernel/mm/memory_peers, where it is not"),
            "use NCCL 2.23 or newer, which knows nvidia-peermem's new name: this one says 'GPU Direct RDMA Disabled'",
        ),
        Some(module) => Verdict::ok(format!("NCCL {version} knows {module}")),
    }
}
