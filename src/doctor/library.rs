//! Driver, NCCL, its plugins, and MPI.

use super::{
    check::Check,
    compare::{Difference, NONE, list, list_or_none, same_everywhere},
    outcome::CheckOutcome,
};
use crate::{
    facts::ranks::{LoadedNccl, RankFacts},
    levels::paths::plugin_names,
    units::counted,
    world::tcp,
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process(
        "lib.driver",
        "the NVIDIA driver is loaded if there is a GPU",
        driver,
    ),
    Check::across_job(
        "lib.driver-same",
        "one driver version on all nodes",
        driver_same,
    ),
    Check::per_process(
        "lib.nvml",
        "NVML, which comes with the driver, responds",
        nvml,
    ),
    Check::per_process("lib.nccl", "libnccl is found and can be loaded", nccl),
    Check::across_job(
        "lib.nccl-same",
        "one NCCL version on all ranks",
        nccl_version_same,
    ),
    Check::across_job(
        "lib.nccl-file",
        "one libnccl file on all ranks",
        nccl_file_same,
    ),
    Check::across_job(
        "lib.plugin-same",
        "the same network plugins on all nodes",
        plugins_same,
    ),
    Check::per_process(
        "lib.plugin",
        "the network plugin that a variable names exists",
        plugin,
    ),
    Check::per_process(
        "mpi.world",
        "all processes that the launcher started are one MPI job",
        mpi_world,
    ),
    Check::across_job("mpi.same", "one MPI library on all ranks", mpi_same),
];

fn driver(process: &RankFacts) -> CheckOutcome {
    let driver = &process.health.driver;
    let evidence = &process.start.gpu_evidence;
    let has_cuda = matches!(process.start.cuda, Some(Ok(_)));
    match (&driver.value, evidence) {
        (Some(version), _) => CheckOutcome::ok(format!("driver {version}")),
        (None, None) => CheckOutcome::not_applicable("there is no NVIDIA device"),
        (None, Some(_)) if has_cuda => CheckOutcome::ok("CUDA starts"),
        (None, Some(evidence)) => CheckOutcome::failure(
            format!("{evidence}, but {}", driver.why),
            "load the driver (modprobe nvidia); start a container with GPUs (--nv, --gpus all)",
        ),
    }
}

fn driver_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "install one driver on all nodes",
        fails: false,
    };
    same_everywhere(job, "driver", driver_version, difference)
}

fn driver_version(process: &RankFacts) -> Option<String> {
    let version = process.health.driver.value.clone();
    Some(version.unwrap_or_else(|| NONE.into()))
}

fn nvml(process: &RankFacts) -> CheckOutcome {
    let health = &process.health;
    match &health.nvml.value {
        Some(nvml) => CheckOutcome::ok(counted(nvml.gpus.len(), "GPU")),
        None if health.nvidia.is_none() => {
            CheckOutcome::not_applicable("there is no NVIDIA device")
        }
        None => CheckOutcome::failure(
            health.nvml.why.clone(),
            "make sure that libnvidia-ml.so.1 of the driver's own version is found; nvidia-smi \
             reports the same problem",
        ),
    }
}

fn nccl(process: &RankFacts) -> CheckOutcome {
    match &process.nccl {
        Ok(LoadedNccl { file, version, .. }) => {
            CheckOutcome::ok(format!("{file}, version {version}"))
        }
        Err(_) if !process.is_for_gpus() => {
            CheckOutcome::not_applicable("there is no NVIDIA device")
        }
        Err(why) => CheckOutcome::failure(
            why.clone(),
            "load NCCL's module, or set NCCL_HOME to its folder",
        ),
    }
}

fn nccl_version_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "load one NCCL everywhere: check NCCL_HOME and LD_LIBRARY_PATH of each node",
        fails: true,
    };
    same_everywhere(job, "NCCL", nccl_version, difference)
}

fn nccl_version(process: &RankFacts) -> Option<String> {
    Some(match &process.nccl {
        Ok(nccl) => nccl.version.to_string(),
        Err(_) => NONE.into(),
    })
}

fn nccl_file_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "load the same file everywhere: two files of one version can be different builds",
        fails: false,
    };
    same_everywhere(job, "libnccl", nccl_file, difference)
}

fn nccl_file(process: &RankFacts) -> Option<String> {
    Some(match &process.nccl {
        Ok(nccl) => nccl.file.clone(),
        Err(_) => NONE.into(),
    })
}

fn plugins_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "add the same plugin to LD_LIBRARY_PATH on all nodes, or set NCCL_NET_PLUGIN=none",
        fails: true,
    };
    same_everywhere(job, "network plugin", plugin_files, difference)
}

fn plugin_files(process: &RankFacts) -> Option<String> {
    let paths = process.health.plugins.iter();
    let files: Vec<&str> = paths.filter_map(|path| path.rsplit('/').next()).collect();
    Some(list_or_none(&files))
}

fn plugin(process: &RankFacts) -> CheckOutcome {
    let named = match process.settings.get("NCCL_NET_PLUGIN") {
        Some(named) if plugin_names(named).next().is_some() => named,
        None | Some(_) => {
            return CheckOutcome::not_applicable("NCCL_NET_PLUGIN names no plugin");
        }
    };
    let files: Vec<&String> = process.health.plugins_named.values().flatten().collect();
    if !files.is_empty() {
        return CheckOutcome::ok(format!("NCCL_NET_PLUGIN={named}: {}", list(&files)));
    }
    CheckOutcome::warning(
        format!(
            "NCCL_NET_PLUGIN={named} was not found, neither as a path nor where the loader \
             searches (LD_LIBRARY_PATH, ldconfig -p)"
        ),
        "add the plugin's folder to LD_LIBRARY_PATH: otherwise NCCL falls back to its own network \
         without an error",
    )
}

fn mpi_world(process: &RankFacts) -> CheckOutcome {
    if is_over_tcp(process) {
        return over_tcp();
    }
    let world = process.world;
    let Some(launched) = process.launched() else {
        return CheckOutcome::ok(counted(world, "process"));
    };
    let started = launched.count;
    if started <= 1 || world > 1 {
        return CheckOutcome::ok(format!("{world} of {started} processes"));
    }
    CheckOutcome::failure(
        format!(
            "{} started {started} processes ({}), but MPI sees only one: each would run alone",
            launched.launcher, launched.variable
        ),
        "under srun select the PMI that fits the MPI: --mpi=pmix or --mpi=pmi2 (srun --mpi=list); \
         otherwise use the mpirun of the MPI that pxnbench was built with",
    )
}

fn is_over_tcp(process: &RankFacts) -> bool {
    process.mpi == tcp::NAME
}

fn over_tcp() -> CheckOutcome {
    CheckOutcome::not_applicable("the ranks meet over TCP, without MPI")
}

fn mpi_same(job: &[RankFacts]) -> CheckOutcome {
    if job.iter().all(is_over_tcp) {
        return over_tcp();
    }
    let difference = Difference {
        remedy: "start all ranks with one MPI",
        fails: true,
    };
    same_everywhere(job, "MPI", mpi_library, difference)
}

fn mpi_library(process: &RankFacts) -> Option<String> {
    let library = process.mpi.clone();
    (!library.is_empty()).then_some(library)
}
