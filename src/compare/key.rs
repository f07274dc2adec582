//! [`ComparisonKey`]: what two times must have in common to be compared, apart from the level.

use super::step::{SEPARATOR, Step};
use crate::{
    collective::BufferMode,
    record::{BackendKind, read::CsvRow},
    units::counted,
};

/// What two times must have in common to be compared, apart from the level: nothing that differs is pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ComparisonKey<'a> {
    /// What is the same in all rows of a table.
    pub conditions: Conditions<'a>,
    /// A row of a table.
    pub case: CaseKey<'a>,
}

impl<'a> ComparisonKey<'a> {
    /// Returns the key of a row of `step`.
    pub fn of(row: &'a CsvRow, step: &'a Step) -> ComparisonKey<'a> {
        ComparisonKey {
            conditions: Conditions::of(row, step),
            case: CaseKey::of(row),
        }
    }
}

/// What a case is measured on and with. An empty part is unknown, or does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conditions<'a> {
    /// The backend.
    pub backend: BackendKind,
    /// Nodes.
    pub nodes: u32,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// GPUs per process; 0 on host memory.
    pub gpus_per_process: u32,
    /// The communicator, if there are several.
    pub group: Option<u32>,
    /// Requested network.
    pub network: &'a str,
    /// Resources in force.
    pub resources: &'a str,
    /// Hosts of the ranks.
    pub hosts: &'a str,
    /// Models of the GPUs or processors.
    pub device: &'a str,
    /// Version of NCCL.
    pub nccl_version: &'a str,
    /// Version of MPI.
    pub mpi_version: &'a str,
    /// Flags that change what a time means.
    pub flags: &'a str,
    /// NCCL's settings, without those that belong to levels, resources and networks.
    pub settings: &'a str,
}

impl<'a> Conditions<'a> {
    /// Returns the conditions of a row of `step`. What an earlier version did not write into the row comes from `run.json`.
    pub fn of(row: &'a CsvRow, step: &'a Step) -> Conditions<'a> {
        Conditions {
            backend: row.backend,
            nodes: row.nodes,
            ranks: row.ranks,
            gpus_per_process: row.gpus_per_process,
            group: row.group,
            network: &row.network,
            resources: &row.resources,
            hosts: known(&row.hosts, &step.measured_on.hosts),
            device: known(&row.device, &step.measured_on.device),
            nccl_version: known(&row.nccl_version, &step.measured_on.nccl_version),
            mpi_version: known(&row.mpi_version, &step.measured_on.mpi_version),
            flags: &step.flags,
            settings: &step.settings,
        }
    }
}

fn known<'a>(in_row: &'a str, in_run: &'a str) -> &'a str {
    if in_row.is_empty() { in_run } else { in_row }
}

/// A part of [`Conditions`] as a reader sees it.
type Part = fn(&Conditions) -> String;

/// All parts, in the order in which they are shown.
const PARTS: [Part; 13] = [
    |conditions| format!("backend {}", conditions.backend),
    |conditions| counted(conditions.nodes, "node"),
    |conditions| counted(conditions.ranks, "rank"),
    |conditions| match conditions.gpus_per_process {
        0 => String::new(),
        gpus => format!("{} per process", counted(gpus, "GPU")),
    },
    |conditions| match conditions.group {
        Some(group) => format!("communicator {group}"),
        None => String::new(),
    },
    |conditions| named("network", conditions.network),
    |conditions| named("resources", conditions.resources),
    |conditions| named("hosts", conditions.hosts),
    |conditions| named("device", conditions.device),
    |conditions| named("NCCL", conditions.nccl_version),
    |conditions| named("MPI", conditions.mpi_version),
    |conditions| conditions.flags.to_owned(),
    |conditions| conditions.settings.to_owned(),
];

/// What stands for a part that a run does not have, beside runs that have it.
const UNKNOWN: [&str; 13] = [
    "",
    "",
    "",
    "no GPU",
    "one communicator",
    "unknown network",
    "unknown resources",
    "unknown hosts",
    "unknown device",
    "unknown or no NCCL",
    "unknown or no MPI",
    "default flags",
    "no other NCCL settings",
];

fn named(name: &str, value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!("{name} {value}")
    }
}

/// Returns what `all` have in common, as words with commas between. Flags and settings are left out: they matter only if
/// they differ.
pub(super) fn in_common(all: &[Conditions]) -> String {
    let mut words = Vec::new();
    for part in &PARTS[..PARTS.len() - 2] {
        let mut values = all.iter().map(part);
        let first = values.next().unwrap_or_default();
        if !first.is_empty() && values.all(|value| value == first) {
            words.push(first);
        }
    }
    words.join(SEPARATOR)
}

/// Returns what tells `one` from the others of `all`, as words with commas between; empty if there are no others.
pub(super) fn differences(one: &Conditions, all: &[Conditions]) -> String {
    let mut words = Vec::new();
    for (part, unknown) in PARTS.iter().zip(UNKNOWN) {
        let values: Vec<String> = all.iter().map(part).collect();
        let own = part(one);
        if values.iter().all(|value| *value == own) {
            continue;
        }
        let special = words_of_its_own(&own, &values);
        words.push(if special.is_empty() {
            unknown.to_owned()
        } else {
            special
        });
    }
    words.join(SEPARATOR)
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

/// A case: a row of the table. The order is that of the rows, in which the sizes of a series follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseKey<'a> {
    /// The collective's name.
    pub collective: &'static str,
    /// The element type.
    pub dtype: &'static str,
    /// The reduction; `none` if elements are only moved.
    pub redop: &'static str,
    /// The root; -1 if there is none.
    pub root: i64,
    /// The traffic of an alltoallv; empty for other collectives.
    pub pattern: &'a str,
    /// Whether send and receive use one buffer.
    pub is_in_place: bool,
    /// The size.
    pub size: u64,
}

impl<'a> CaseKey<'a> {
    /// Returns the case of a row.
    pub fn of(row: &'a CsvRow) -> CaseKey<'a> {
        CaseKey {
            collective: row.collective.name(),
            dtype: row.dtype.name(),
            redop: row.redop.map_or("none", |redop| redop.name()),
            root: row.root.map_or(-1, i64::from),
            pattern: &row.pattern,
            size: row.size.0,
            is_in_place: row.buffer_mode == BufferMode::InPlace,
        }
    }
}
