//! Driver, NCCL, its plugins, and MPI.

use super::{Check, CheckOutcome, NONE, RankFacts, all, each, list, same};

pub(super) const CHECKS: &[Check] = &[
    each(
        "lib.driver",
        "the NVIDIA driver is loaded where there is a GPU",
        driver,
    ),
    all(
        "lib.driver-same",
        "one driver version on all nodes",
        |job| {
            same(
                job,
                "driver",
                |one| Some(driver_version(one)),
                "install one driver on all nodes",
                false,
            )
        },
    ),
    each(
        "lib.nvml",
        "NVML, which comes with the driver, answers",
        nvml,
    ),
    each("lib.nccl", "libnccl is found and can be loaded", nccl),
    all("lib.nccl-same", "one NCCL version on all ranks", |job| {
        let remedy = "load one NCCL everywhere: see NCCL_HOME and LD_LIBRARY_PATH of each node";
        same(
            job,
            "NCCL",
            |one| Some(loaded(one, |(_, version)| version.to_string())),
            remedy,
            true,
        )
    }),
    all("lib.nccl-file", "one libnccl file on all ranks", |job| {
        let remedy = "two files of one version can differ in their build: load the same everywhere";
        same(
            job,
            "libnccl",
            |one| Some(loaded(one, |(file, _)| file.clone())),
            remedy,
            false,
        )
    }),
    all(
        "lib.plugin-same",
        "the same network plugins on all nodes",
        |job| {
            let remedy = "put the same plugin into LD_LIBRARY_PATH on all nodes, or set NCCL_NET_PLUGIN=none";
            same(
                job,
                "network plugin",
                |one| Some(plugins(one)),
                remedy,
                true,
            )
        },
    ),
    each(
        "lib.plugin",
        "the network plugin that is named is there",
        plugin,
    ),
    each(
        "mpi.world",
        "all processes that the launcher started are one MPI job",
        world,
    ),
    all("mpi.same", "one MPI library on all ranks", |job| {
        let known = |one: &RankFacts| (!one.mpi.is_empty()).then(|| one.mpi.clone());
        same(job, "MPI", known, "start all ranks with one MPI", true)
    }),
];

fn driver_version(one: &RankFacts) -> String {
    one.health
        .driver
        .value
        .clone()
        .unwrap_or_else(|| NONE.into())
}

/// What `of` says of the libnccl that would be loaded.
fn loaded(one: &RankFacts, of: impl Fn(&(String, i32)) -> String) -> String {
    one.nccl.as_ref().map_or_else(|_| NONE.into(), of)
}

fn driver(one: &RankFacts) -> CheckOutcome {
    match (&one.health.driver.value, &one.health.nvidia) {
        (Some(version), _) => CheckOutcome::ok(format!("driver {version}")),
        (None, None) => CheckOutcome::none("there is no NVIDIA device"),
        (None, Some(device)) => CheckOutcome::failure(
            format!("{device}, but {}", one.health.driver.why),
            "load the driver (modprobe nvidia); in a container start it with GPUs (--nv, --gpus all)",
        ),
    }
}

fn nvml(one: &RankFacts) -> CheckOutcome {
    match &one.health.nvml.value {
        Some(nvml) => CheckOutcome::ok(format!("{} GPUs", nvml.gpus.len())),
        None if one.health.nvidia.is_none() => CheckOutcome::none("there is no NVIDIA device"),
        None => CheckOutcome::failure(
            one.health.nvml.why.clone(),
            "libnvidia-ml.so.1 of the driver's own version must be found; nvidia-smi says the same",
        ),
    }
}

fn nccl(one: &RankFacts) -> CheckOutcome {
    match &one.nccl {
        Ok((file, version)) => CheckOutcome::ok(format!("{file}, version {version}")),
        Err(_) if !one.has_gpus() => CheckOutcome::none("there is no NVIDIA device"),
        Err(why) => CheckOutcome::failure(
            why.clone(),
            "load NCCL's module, or set NCCL_HOME to its folder",
        ),
    }
}

fn plugins(one: &RankFacts) -> String {
    let names = one
        .health
        .plugins
        .iter()
        .filter_map(|path| path.rsplit('/').next())
        .collect::<Vec<_>>();
    if names.is_empty() {
        NONE.into()
    } else {
        list(&names)
    }
}

fn plugin(one: &RankFacts) -> CheckOutcome {
    let Some(named) = one
        .settings
        .get("NCCL_NET_PLUGIN")
        .filter(|name| !name.is_empty() && *name != "none")
    else {
        return CheckOutcome::none("NCCL_NET_PLUGIN names none");
    };
    let files: Vec<&String> = one.health.plugins_named.values().flatten().collect();
    match files.is_empty() {
        false => CheckOutcome::ok(format!("NCCL_NET_PLUGIN={named}: {}", list(&files))),
        true => CheckOutcome::warning(
            format!(
                "NCCL_NET_PLUGIN={named} is not there: neither as a path nor where the loader looks (LD_LIBRARY_PATH, ldconfig -p)"
            ),
            "put the plugin's folder into LD_LIBRARY_PATH: NCCL falls back to its own network, without an error",
        ),
    }
}

fn world(one: &RankFacts) -> CheckOutcome {
    match one.started() {
        Some((started, who, variable)) if started > 1 && one.world == 1 => CheckOutcome::failure(
            format!(
                "{who} started {started} processes ({variable}), and MPI sees one: each would run alone"
            ),
            "under srun name the PMI that fits the MPI: --mpi=pmix or --mpi=pmi2 (srun --mpi=list); else take the mpirun of the MPI \
             that pxnbench is built with",
        ),
        Some((started, ..)) => CheckOutcome::ok(format!("{} of {started} processes", one.world)),
        None => CheckOutcome::ok(format!("{} processes", one.world)),
    }
}
