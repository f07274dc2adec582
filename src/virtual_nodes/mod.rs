//! `pxnbench rehearse`: NCCL itself on virtual nodes of this machine, whose NICs a net plugin
//! plays.
//!
//! NCCL reads its settings once per process, and counters belong to a process. So each level,
//! collective and algorithm is a job of its own: a short sweep by this program, whose ranks meet
//! over TCP. Several jobs run at the same time, since times mean nothing. What a job leaves (rows,
//! NCCL's logs, the counters of the rails) is read when it has ended, and compared with the theory
//! by [`crate::rehearsal`].
//!
//! | step | module |
//! |---|---|
//! | what is to be rehearsed | `request`, `played` |
//! | the GPUs of this machine, and the plugin | `machine` |
//! | the variables of a rank | `environment` |
//! | the jobs, and several of them at a time | `jobs` |
//! | one job from its start to what it showed | `job`, `folder`, `files`, `reading` |
//! | why a job failed or is not as the theory has it | `evidence` |

mod environment;
mod evidence;
mod files;
mod folder;
mod job;
mod jobs;
mod machine;
mod played;
mod reading;
mod request;

use self::{
    folder::JobsFolder,
    job::JobSetup,
    jobs::{Done, Job, JobProgress},
    machine::Machine,
    reading::ShownJob,
};
pub use self::{
    played::{PlayedOnRails, RailNumber, RailStall},
    request::Request,
};
use crate::{
    exit::{self, Code, Failure},
    rehearsal::rehearsed::Rehearsal,
    units::counted,
};

/// What a rehearsal came to.
#[derive(Debug)]
pub struct Outcome {
    /// What the jobs showed that ended well.
    pub rehearsal: Rehearsal,
    /// What the files say of the first job that failed, or that is not as the theory has it, as
    /// lines.
    pub evidence: Vec<String>,
    /// Why not all jobs ended well.
    pub failure: Option<anyhow::Error>,
}

/// Rehearses what is requested.
///
/// # Errors
/// Returns an error if this machine has too few GPUs, if there is no plugin, or if the request
/// cannot be fulfilled.
pub fn run(request: &Request) -> anyhow::Result<Outcome> {
    request.check()?;
    let cluster = request.first_cluster();
    let machine = Machine::find(cluster.gpus())?;
    let folder = JobsFolder::new(request.out.as_deref())?;
    let setup = JobSetup::new(request, &machine, folder.path())?;
    let jobs = jobs::list(request);
    say!(
        "pxnbench: {} of {} on {}, up to {} at a time; times mean nothing in a rehearsal",
        counted(jobs.len() as u64, "job"),
        counted(cluster.ranks(), "rank"),
        counted(cluster.gpus() as u64, "GPU"),
        request.jobs_at_once
    );
    let progress = JobProgress::new(jobs.len());
    let done = jobs::run_all(&jobs, request.jobs_at_once, &|job| {
        let end = setup.run(job);
        progress.count();
        end
    });
    let rehearsal = rehearsal(request, &machine, &done.shown);
    let evidence = evidence(&setup, &jobs, cluster.ranks(), &done);
    let recorded = folder.write_record(&rehearsal);
    let failure = failure(done).or(recorded.err());
    if failure.is_some() || !evidence.is_empty() || rehearsal.check().is_err() {
        folder.keep();
    }
    Ok(Outcome {
        rehearsal,
        evidence,
        failure,
    })
}

/// Puts together what jobs showed.
fn rehearsal(request: &Request, machine: &Machine, shown: &[(usize, ShownJob)]) -> Rehearsal {
    let mut rehearsal = Rehearsal::of(request.first_cluster(), request.size.0);
    rehearsal.device.clone_from(&machine.device);
    rehearsal.played = request.played.words();
    if let Some((_, first)) = shown.first() {
        rehearsal.nccl.clone_from(&first.nccl);
    }
    rehearsal.add(shown.iter().map(|(_, shown)| shown.case.clone()));
    rehearsal
}

/// Returns what the files say of the first job that failed, or else of the first one that is not as
/// it should be; nothing if all is well or the rehearsal was stopped.
fn evidence(setup: &JobSetup<'_>, jobs: &[Job], ranks: u64, done: &Done<ShownJob>) -> Vec<String> {
    if done.stopped_by.is_some() {
        return Vec::new();
    }
    let failed = done.failed.first().map(|(at, _)| (*at, None));
    let differs = || {
        let mut shown = done.shown.iter();
        let first = shown.find(|(_, shown)| !shown.case.is_as_expected());
        first.map(|(at, shown)| (*at, Some(&shown.case)))
    };
    let Some((at, case)) = failed.or_else(differs) else {
        return Vec::new();
    };
    let job = &jobs[at];
    let files = setup.files(job);
    let mut lines = vec![format!(
        "{}: the files in {} say",
        setup.label(job),
        files.folder().display()
    )];
    lines.extend(case.map(evidence::ways).unwrap_or_default());
    lines.extend(evidence::of_job(&files, ranks));
    lines
}

/// Returns why not all jobs ended well, if so: the first failure, and how many more there are.
fn failure(done: Done<ShownJob>) -> Option<anyhow::Error> {
    if let Some(signal) = done.stopped_by {
        let what = format!("stopped by {signal}; the rehearsal is not complete");
        return Some(Failure::on_all_ranks(Code::Stopped, what));
    }
    let more = done.failed.len().saturating_sub(1) as u64;
    let (_, first) = done.failed.into_iter().next()?;
    if more == 0 {
        return Some(first);
    }
    let what = format!("{first}. {} failed, too", counted(more, "more job"));
    Some(Failure::on_all_ranks(exit::code_of(&first), what))
}
