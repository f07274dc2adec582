//! [`Conditions`]: what a time was measured on and with. Times are compared only if theirs are the
//! same, apart from the dimension that is compared.

use crate::{
    record::{BackendKind, read::RowView},
    replay::SavedReplay,
    units::counted,
};

use super::{
    experiment_record::{Variant, bucket_label},
    run_facts::{RunFacts, SEPARATOR},
};

/// What a time was measured on and with. An empty part, or a zero, is unknown, does not apply, or
/// is what is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Conditions {
    /// The backend.
    pub(super) backend: BackendKind,
    /// Nodes.
    pub(super) nodes: u32,
    /// Ranks of the communicator.
    pub(super) ranks: u64,
    /// GPUs per process; 0 on host memory.
    pub(super) gpus_per_process: u32,
    /// The communicator, if there are several.
    pub(super) group: Option<u32>,
    /// PXN level in force.
    pub(super) level: String,
    /// Requested network.
    pub(super) network: String,
    /// Resources in force.
    pub(super) resources: String,
    /// The size of the buckets of a training step.
    pub(super) bucket: String,
    /// Hosts of the ranks.
    pub(super) hosts: String,
    /// Models of the GPUs or processors.
    pub(super) device: String,
    /// Version of NCCL.
    pub(super) nccl_version: String,
    /// Version of MPI.
    pub(super) mpi_version: String,
    /// Version of the kernel's GPU driver.
    pub(super) driver: String,
    /// Version of this program.
    pub(super) program: String,
    /// Timed operations per case, as requested.
    pub(super) iters: Option<u32>,
    /// Flags that change what a time means.
    pub(super) flags: String,
    /// NCCL's settings, without those that belong to levels, resources and networks.
    pub(super) settings: String,
}

impl Conditions {
    /// Returns the conditions of a row. What an earlier version did not write into the row comes
    /// from `run.json`.
    pub(super) fn of(row: &RowView, run: &RunFacts) -> Conditions {
        Conditions {
            backend: row.backend,
            nodes: row.nodes,
            ranks: row.ranks,
            gpus_per_process: row.gpus_per_process,
            group: row.group,
            level: row.level.to_owned(),
            network: row.network.to_owned(),
            resources: row.resources.to_owned(),
            bucket: String::new(),
            hosts: known(row.hosts, &run.measured_on.hosts).to_owned(),
            device: known(row.device, &run.measured_on.device).to_owned(),
            nccl_version: known(row.nccl_version, &run.measured_on.nccl_version).to_owned(),
            mpi_version: known(row.mpi_version, &run.measured_on.mpi_version).to_owned(),
            driver: run.driver.clone(),
            program: run.program.clone(),
            iters: run.iters.or(row.iters),
            flags: run.flags.clone(),
            settings: run.settings.clone(),
        }
    }

    /// Returns the conditions of a replay.
    pub(super) fn of_replay(replay: &SavedReplay, run: &RunFacts) -> Conditions {
        let SavedReplay {
            workload,
            shape,
            computation,
            ..
        } = replay;
        let meta = &replay.run;
        Conditions {
            backend: meta.backend,
            nodes: meta.nodes,
            ranks: meta.ranks,
            gpus_per_process: meta.gpus_per_process,
            group: None,
            level: meta.level.clone(),
            network: meta.network.clone(),
            resources: meta.resources.clone(),
            bucket: replay.bucket_mb.map(bucket_label).unwrap_or_default(),
            hosts: run.measured_on.hosts.clone(),
            device: run.measured_on.device.clone(),
            nccl_version: run.measured_on.nccl_version.clone(),
            mpi_version: run.measured_on.mpi_version.clone(),
            driver: run.driver.clone(),
            program: run.program.clone(),
            // Those of a sweep.
            iters: None,
            flags: format!("workload {workload} ({shape}), {computation}"),
            settings: run.settings.clone(),
        }
    }

    /// Returns whether they have what is chosen for `variant`.
    pub(super) fn have(&self, variant: &Variant) -> bool {
        let is_met = |chosen: &Option<String>, found: &str| {
            chosen.as_ref().is_none_or(|chosen| chosen == found)
        };
        (variant.level.is_empty() || variant.level == self.level)
            && is_met(&variant.network, &self.network)
            && is_met(&variant.resources, &self.resources)
            && is_met(&variant.bucket_mb.map(bucket_label), &self.bucket)
    }

    /// Returns whether a row of the same run has these conditions. This is asked for each row, so
    /// nothing is copied.
    pub(super) fn are_of(&self, row: &RowView, run: &RunFacts) -> bool {
        self.backend == row.backend
            && self.nodes == row.nodes
            && self.ranks == row.ranks
            && self.gpus_per_process == row.gpus_per_process
            && self.group == row.group
            && self.level == row.level
            && self.network == row.network
            && self.resources == row.resources
            && self.hosts == known(row.hosts, &run.measured_on.hosts)
            && self.device == known(row.device, &run.measured_on.device)
            && self.nccl_version == known(row.nccl_version, &run.measured_on.nccl_version)
            && self.mpi_version == known(row.mpi_version, &run.measured_on.mpi_version)
            && self.iters == run.iters.or(row.iters)
    }
}

fn known<'a>(in_row: &'a str, in_run: &'a str) -> &'a str {
    if in_row.is_empty() { in_run } else { in_row }
}

/// A part of [`Conditions`] as a reader sees it.
struct Part {
    text: fn(&Conditions) -> String,
    /// What stands for the part of a run that does not have it, beside runs that have it.
    unknown: &'static str,
    /// Whether it matters only if it differs.
    is_detail: bool,
    /// Makes it the same in all conditions.
    clear: fn(&mut Conditions),
}

/// All parts, in the order in which they are shown.
const PARTS: [Part; 18] = [
    Part {
        text: |conditions| format!("backend {}", conditions.backend),
        unknown: "",
        is_detail: false,
        // GPUs and host memory are never compared.
        clear: |_| {},
    },
    Part {
        text: |conditions| match conditions.nodes {
            0 => String::new(),
            nodes => counted(nodes, "node"),
        },
        unknown: "",
        is_detail: false,
        clear: |conditions| conditions.nodes = 0,
    },
    Part {
        text: |conditions| match conditions.ranks {
            0 => String::new(),
            ranks => counted(ranks, "rank"),
        },
        unknown: "",
        is_detail: false,
        clear: |conditions| conditions.ranks = 0,
    },
    Part {
        text: |conditions| match conditions.gpus_per_process {
            0 => String::new(),
            gpus => format!("{} per process", counted(gpus, "GPU")),
        },
        unknown: "no GPU",
        is_detail: false,
        clear: |conditions| conditions.gpus_per_process = 0,
    },
    Part {
        text: |conditions| match conditions.group {
            Some(group) => format!("communicator {group}"),
            None => String::new(),
        },
        unknown: "one communicator",
        is_detail: false,
        // Communicators of one run are cases of their own.
        clear: |_| {},
    },
    Part {
        text: |conditions| named("level", &conditions.level),
        unknown: "unknown level",
        is_detail: false,
        clear: |conditions| conditions.level.clear(),
    },
    Part {
        text: |conditions| named("network", &conditions.network),
        unknown: "unknown network",
        is_detail: false,
        clear: |conditions| conditions.network.clear(),
    },
    Part {
        text: |conditions| named("resources", &conditions.resources),
        unknown: "unknown resources",
        is_detail: false,
        clear: |conditions| conditions.resources.clear(),
    },
    Part {
        text: |conditions| named("buckets of", &conditions.bucket),
        unknown: "no buckets",
        is_detail: false,
        clear: |conditions| conditions.bucket.clear(),
    },
    Part {
        text: |conditions| named("hosts", &conditions.hosts),
        unknown: "unknown hosts",
        is_detail: false,
        clear: |conditions| conditions.hosts.clear(),
    },
    Part {
        text: |conditions| named("device", &conditions.device),
        unknown: "unknown device",
        is_detail: false,
        clear: |conditions| conditions.device.clear(),
    },
    Part {
        text: |conditions| named("NCCL", &conditions.nccl_version),
        unknown: "unknown or no NCCL",
        is_detail: false,
        clear: |conditions| conditions.nccl_version.clear(),
    },
    Part {
        text: |conditions| named("MPI", &conditions.mpi_version),
        unknown: "unknown or no MPI",
        is_detail: false,
        clear: |conditions| conditions.mpi_version.clear(),
    },
    Part {
        text: |conditions| named("driver", &conditions.driver),
        unknown: "unknown or no driver",
        is_detail: false,
        clear: |conditions| conditions.driver.clear(),
    },
    Part {
        text: |conditions| named("pxnbench", &conditions.program),
        unknown: "unknown pxnbench",
        is_detail: true,
        clear: |conditions| conditions.program.clear(),
    },
    Part {
        text: |conditions| match conditions.iters {
            Some(iters) => format!("-n {iters}"),
            None => String::new(),
        },
        unknown: "unknown -n",
        is_detail: true,
        clear: |conditions| conditions.iters = None,
    },
    Part {
        text: |conditions| conditions.flags.clone(),
        unknown: "default flags",
        is_detail: true,
        clear: |conditions| conditions.flags.clear(),
    },
    Part {
        text: |conditions| conditions.settings.clone(),
        unknown: "no other NCCL settings",
        is_detail: true,
        clear: |conditions| conditions.settings.clear(),
    },
];

fn named(name: &str, value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!("{name} {value}")
    }
}

/// Returns what `all` have in common, as words with commas between. Details are left out: they
/// matter only if they differ.
pub(super) fn in_common(all: &[Conditions]) -> String {
    let mut words = Vec::new();
    for part in PARTS.iter().filter(|part| !part.is_detail) {
        let mut values = all.iter().map(part.text);
        let first = values.next().unwrap_or_default();
        if !first.is_empty() && values.all(|value| value == first) {
            words.push(first);
        }
    }
    words.join(SEPARATOR)
}

/// Returns what tells `one` from the others of `all`, as words with commas between; empty if there
/// are no others.
pub(super) fn differences(one: &Conditions, all: &[Conditions]) -> String {
    let mut words = Vec::new();
    for part in &PARTS {
        let values: Vec<String> = all.iter().map(part.text).collect();
        let own = (part.text)(one);
        if values.iter().all(|value| *value == own) {
            continue;
        }
        let special = words_of_its_own(&own, &values);
        words.push(if special.is_empty() {
            part.unknown.to_owned()
        } else {
            special
        });
    }
    words.join(SEPARATOR)
}

/// Makes all conditions the same in each part in which they differ, so that they can be compared in
/// spite of it. The backend and the communicator stay.
pub(super) fn ignore_differences(all: &mut [&mut Conditions]) {
    for part in &PARTS {
        let mut values = all.iter().map(|conditions| (part.text)(conditions));
        let first = values.next().unwrap_or_default();
        if values.all(|value| value == first) {
            continue;
        }
        for conditions in all.iter_mut() {
            (part.clear)(conditions);
        }
    }
}

/// Returns the words of `own` that not all `values` have.
fn words_of_its_own(own: &str, values: &[String]) -> String {
    let is_common = |word: &str| {
        let mut values = values.iter();
        values.all(|value| value.split(SEPARATOR).any(|other| other == word))
    };
    let mut words: Vec<&str> = own.split(SEPARATOR).collect();
    words.retain(|word| !is_common(word));
    words.join(SEPARATOR)
}
