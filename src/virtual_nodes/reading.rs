//! What a job left: rows of its sweep, NCCL's logs, and the counters of its rails.

use std::{fs, path::Path};

use super::{files::JobFiles, jobs::Job, request::Request};
use crate::{
    input::{self, InputKind},
    nccl_log::{Proof, reading},
    record::{
        Status,
        read::{self, CsvRow},
    },
    rehearsal::{
        cluster::Cluster,
        counters::{ProcessCounters, RunCounters},
        rehearsed_case::{self, RehearsedCase, ShownRun},
        settings::PxnSettings,
        theory::{self, Algorithm, Theory},
        virtual_node,
    },
};

/// Operations before and after the timed ones of a row: the first one and that of the check.
const UNTIMED: u64 = 2;

/// Operations of the warm-up, of a series whose cases can run.
const WARM_UP: u64 = 1;

/// What a job showed.
#[derive(Debug)]
pub(super) struct ShownJob {
    pub(super) case: RehearsedCase,
    /// The version of NCCL.
    pub(super) nccl: String,
}

/// Reads what a job left.
///
/// # Errors
/// Returns a sentence if something is missing, or cannot be read.
pub(super) fn read(
    request: &Request,
    cluster: &Cluster,
    job: &Job,
    files: &JobFiles,
) -> Result<ShownJob, String> {
    let rows = rows(&files.results().join("results.csv"))?;
    let proof = proof(&files.logs())?;
    let logged = proof.channels.map(|channels| channels.collective);
    let cluster = Cluster {
        channels: request.channels.or(logged).or(cluster.channels),
        node: match cluster.shape {
            Some(_) => cluster.node.clone(),
            None => virtual_node::as_played(&cluster.node),
        },
        ..cluster.clone()
    };
    let counters = counters(&cluster, &files.counters())?;
    let run = ShownRun {
        log: match job.algorithm {
            Algorithm::SendRecv => proof.send_recv,
            Algorithm::Ring | Algorithm::Tree => proof.collective,
        },
        counters: &counters,
        operations: operations(&rows),
        nccl_algorithm: rehearsed_case::algorithm_names(&proof.algorithms),
        is_verified: verified(&rows),
    };
    let theory = theory(request, &cluster, job);
    Ok(ShownJob {
        case: RehearsedCase::new(&cluster, &theory, run)?,
        nccl: proof.versions.first().cloned().unwrap_or_default(),
    })
}

fn theory(request: &Request, cluster: &Cluster, job: &Job) -> Theory {
    let case = theory::case(cluster, job.collective, request.size, request.root);
    let settings = PxnSettings::of_level(job.level);
    Theory::new(cluster, &job.level.name, &settings, &case, job.algorithm)
}

fn rows(file: &Path) -> Result<Vec<CsvRow>, String> {
    let unreadable =
        |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", file.display());
    let text = input::read_text(file, InputKind::Rows).map_err(|error| unreadable(&error))?;
    read::parse_rows(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(&error))
}

/// Returns how often the operation of a sweep ran, in place or not.
fn operations(rows: &[CsvRow]) -> u64 {
    let ran: Vec<&CsvRow> = rows
        .iter()
        .filter(|row| row.status != Status::Waived)
        .collect();
    if ran.is_empty() {
        return 0;
    }
    let timed = ran.iter().map(|row| u64::from(row.iters.unwrap_or(0)));
    WARM_UP + timed.map(|timed| timed + UNTIMED).sum::<u64>()
}

/// Returns whether all checked rows are right; `None` if none was checked.
fn verified(rows: &[CsvRow]) -> Option<bool> {
    let is_wrong = rows.iter().any(|row| row.status == Status::Wrong);
    let is_checked = rows.iter().any(|row| row.wrong.is_some());
    is_checked.then_some(!is_wrong)
}

fn proof(folder: &Path) -> Result<Proof, String> {
    let unreadable = |why: &dyn std::fmt::Display| {
        format!("NCCL's logs in {} cannot be read: {why}", folder.display())
    };
    let mut sources = reading::sources(folder).map_err(|error| unreadable(&error))?;
    if sources.is_empty() {
        return Err("NCCL wrote no log".into());
    }
    let read = reading::read(&mut sources).map_err(|unread| unreadable(&unread.error))?;
    Ok(read.proof)
}

/// Reads the counters of all ranks.
fn counters(cluster: &Cluster, folder: &Path) -> Result<RunCounters, String> {
    let mut processes = Vec::new();
    for rank in 0..cluster.ranks() {
        let file = folder.join(format!("rails-{rank}.json"));
        if !fs::exists(&file).unwrap_or(false) {
            continue;
        }
        let unreadable =
            |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", file.display());
        let text = input::read_text(&file, InputKind::Json).map_err(|error| unreadable(&error))?;
        processes.push(ProcessCounters::parse(&text).map_err(|why| unreadable(&why))?);
    }
    if processes.is_empty() {
        return Err(
            "NCCL did not use the plugin that plays the rails: no rank left counters".into(),
        );
    }
    RunCounters::new(cluster, processes)
}
