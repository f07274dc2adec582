//! What the runs of a report ran on, and what they remarked.

use serde::Serialize;

use super::source::Source;
use crate::record::RunMeta;

/// Runs that are described.
const MOST_RUNS: usize = 40;

/// A run in words: names and values.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) facts: Vec<(String, String)>,
    /// NCCL's settings in force and the like.
    pub(super) environment: Vec<(String, String)>,
    /// Remarks about the settings.
    pub(super) remarks: Vec<String>,
}

/// Returns the runs, and how many more there are.
pub(super) fn describe(sources: &[Source]) -> (Vec<Machine>, usize) {
    let shown = sources.iter().take(MOST_RUNS);
    let machines: Vec<Machine> = shown.map(machine).collect();
    (machines, sources.len().saturating_sub(MOST_RUNS))
}

fn machine(source: &Source) -> Machine {
    let mut facts = vec![("rows".to_owned(), source.csv.display().to_string())];
    let Some(run) = &source.run else {
        facts.push((
            "run.json".into(),
            "missing or unreadable: nothing more is known".into(),
        ));
        return Machine {
            name: source.folder.display().to_string(),
            facts,
            environment: Vec::new(),
            remarks: Vec::new(),
        };
    };
    facts.extend(facts_of(run));
    facts.retain(|(_, value)| !value.is_empty());
    Machine {
        name: run.run_id.clone(),
        facts,
        environment: run.environment.clone().into_iter().collect(),
        remarks: run.remarks.clone(),
    }
}

fn facts_of(run: &RunMeta) -> Vec<(String, String)> {
    let on = run.measured_on();
    let end = match (&run.end, run.ended_at) {
        (Some(end), _) if !end.message.is_empty() => {
            format!("exit code {}: {}", end.code, end.message)
        }
        (Some(end), Some(at)) => format!("exit code {} at {}", end.code, at.to_rfc3339()),
        (Some(end), None) => format!("exit code {}", end.code),
        (None, _) => "it did not end, or is still running".to_owned(),
    };
    let mut facts = vec![
        ("command", run.command.join(" ")),
        ("pxnbench", run.pxnbench.clone()),
        ("started", run.started_at.to_rfc3339()),
        ("ended", end),
        ("backend", format!("{} ({})", run.backend, run.backend_why)),
        ("level", run.level.clone()),
        ("network", run.network.clone()),
        ("resources", run.resources.clone()),
        ("nodes", run.nodes.to_string()),
        ("ranks", run.ranks.to_string()),
        ("hosts", on.hosts),
        ("devices", on.device),
        ("NCCL", on.nccl_version),
        ("MPI", on.mpi_version),
    ];
    for (library, version) in &run.versions {
        if library != "nccl" && library != "mpi" {
            facts.push((library, version.clone()));
        }
    }
    facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
