//! A job that runs again: requeued because its time was up, or restarted by Slurm. Its sweep
//! continues where it stopped.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{context::Launch, results::RunFolder};
use crate::{
    exit::{Code, Failure},
    facts,
    record::{RunMeta, read},
};

/// With this set to 1, a job whose time is up puts itself into the queue again.
const ASKED: &str = "PXN_REQUEUE";

/// How long the controller may take to requeue a job, whose time is up anyway.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns, in a restarted job, the folder of the latest run of the same sweep. The number of the
/// step, which else names the folder, may be another one now.
pub(super) fn earlier(launch: &Launch, folder: &RunFolder) -> Option<PathBuf> {
    if launch.job.restarts == 0 || !folder.is_jobs() {
        return None;
    }
    let runs = folder.runs().into_iter();
    let same = runs.filter(|(path, _)| {
        read::read_run(path).is_some_and(|run| is_same(&run.command, &launch.request.arguments))
    });
    let (path, _) = same.max_by_key(|(_, at)| *at)?;
    path.parent().map(Path::to_owned)
}

/// Returns whether `command`, the program's name with its arguments, is the sweep of `arguments` or
/// one that continued it.
fn is_same(command: &[String], arguments: &[OsString]) -> bool {
    let Some(rest) = command.get(1..) else {
        return false;
    };
    let is = |words: &[String]| {
        words
            .iter()
            .map(OsString::from)
            .eq(arguments.iter().cloned())
    };
    is(rest) || matches!(rest, [first @ .., out, _] if out == "--out" && is(first))
}

/// Puts the job into the queue again if the user wants that and the run was stopped because its
/// time was up: Slurm does not do so by itself after a time limit.
pub(super) fn requeue_if_asked(launch: &Launch, run: &RunMeta) -> anyhow::Result<()> {
    let time_is_up = run
        .end
        .as_ref()
        .is_some_and(|end| end.name == Code::Stopped && end.message.contains("SIGUSR1"));
    if !time_is_up || crate::env::var(ASKED).as_deref() != Some("1") {
        return Ok(());
    }
    let job = launch.job.id;
    say!(
        "pxnbench: the time is up, and {ASKED}=1: job {job} is requeued and will resume from here"
    );
    let asked = facts::slurm::answer(
        Path::new("scontrol"),
        &["requeue", &job.to_string()],
        PATIENCE,
    );
    asked.map(|_| ()).map_err(|why| {
        let what = format!(
            "job {job} cannot be requeued: {why}; submit it again, with --resume and this run's \
             --out"
        );
        Failure::on_all_ranks(Code::Launch, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_sweep_is_found_again() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let arguments: Vec<OsString> = words("alltoall -b 1K")
            .into_iter()
            .map(Into::into)
            .collect();
        assert!(is_same(&words("/x/pxnbench alltoall -b 1K"), &arguments));
        assert!(is_same(
            &words("/x/pxnbench alltoall -b 1K --out results/x-7/2"),
            &arguments
        ));
        assert!(!is_same(&words("/x/pxnbench alltoall -b 2K"), &arguments));
        assert!(!is_same(
            &words("/x/pxnbench alltoall -b 1K --csv x.csv"),
            &arguments
        ));
        assert!(!is_same(&[], &arguments));
    }
}
