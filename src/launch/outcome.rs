//! The run, and what its end means: the launcher's exit status, what the ranks wrote down, and who died.

use super::{
    context::{Launch, exported},
    process, requeue,
    results::{self, RunFolder},
};
use crate::{
    exit::{Code, Failure},
    record::read,
    slurm::step::{Launcher, StepShape},
    world::signal,
};

/// Runs the ranks, and returns the exit code.
///
/// # Errors
/// Returns an error if the launcher cannot be started, or if a rank died.
pub(super) fn run(launch: &Launch, launcher: &Launcher, shape: StepShape) -> anyhow::Result<Code> {
    let folder = RunFolder::new(launch);
    let mut program = launch.program(&launch.request.arguments)?;
    let place = requeue::earlier(launch, &folder).or_else(|| match launcher {
        // Its ranks are no step of Slurm with a number for their folder.
        Launcher::Mpirun(_) if folder.is_jobs() => Some(folder.next()),
        _ => None,
    });
    program.extend(
        place
            .into_iter()
            .flat_map(|place| ["--out".into(), place.display().to_string()]),
    );
    let step = launch.step(shape, &program);
    let before = folder.runs();
    let ended = process::run(&step.command(launcher, &exported()), step.inside_step)?;
    let written = folder
        .runs()
        .into_iter()
        .find(|(path, at)| before.get(path) != Some(at))
        .map(|(path, _)| path);
    let run = written.as_deref().and_then(read::read_run);
    let code = verdict(
        &ended,
        run.as_ref().and_then(|run| Some(run.end.as_ref()?.name)),
        signal::received(),
    )?;
    if let (Some(run), Some(path)) = (&run, &written) {
        say!("pxnbench: {}", results::summary(run, path));
        requeue::requeue_if_asked(launch, run)?;
    }
    Ok(code)
}

/// Returns the exit code. What the run wrote down counts more than the launcher's status, which some launchers replace by
/// their own. But a rank that a signal killed wrote nothing, and those that were stopped because of it report a stop that
/// was requested.
pub(super) fn verdict(
    ended: &process::LauncherEnd,
    own: Option<Code>,
    asked_to_stop: Option<&str>,
) -> anyhow::Result<Code> {
    let was_stopped = match own {
        // Ranks that MPI_Abort took along are killed too: then the first who was is not the one to blame.
        None => ended.lost_first,
        Some(code) => matches!(code, Code::Fine | Code::Stopped),
    };
    match (&ended.lost, asked_to_stop) {
        (Some(lost), None) if ended.status != 0 && was_stopped => {
            let what = format!(
                "rank {} on {} was ended by a signal ({}), which ended the run; finished cases are kept",
                lost.rank, lost.node, lost.by
            );
            return Err(Failure::on_all_ranks(Code::Launch, what));
        }
        (_, Some(_)) if own.is_none_or(|code| code == Code::Fine) && ended.status != 0 => {
            return Ok(Code::Stopped);
        }
        _ => {}
    }
    match (ended.status, own) {
        (0, None) => Ok(Code::Fine),
        (_, Some(code)) if code != Code::Fine || ended.status == 0 => Ok(code),
        // All was measured and saved, and then a rank failed to end: that is no success.
        (_, Some(_)) => Ok(Code::Launch),
        (1, None) if ended.complaint.is_some() => Ok(Code::Launch),
        (status, None) => Ok(Code::from_number(status).unwrap_or(Code::Launch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::lost::LostRank;

    fn ended(status: i32, lost: bool, complaint: bool) -> process::LauncherEnd {
        process::LauncherEnd {
            status,
            lost_first: lost,
            lost: lost.then(|| LostRank {
                rank: "5".into(),
                node: "node3".into(),
                by: "Killed".into(),
            }),
            complaint: complaint.then(|| "srun: error: Unable to create step".into()),
        }
    }

    fn code(status: i32, own: Option<Code>, signal: Option<&str>) -> Code {
        verdict(&ended(status, false, false), own, signal).expect("no rank died")
    }

    #[test]
    fn the_runs_own_code_wins() {
        assert_eq!(code(0, Some(Code::Fine), None), Code::Fine);
        assert_eq!(
            code(137, Some(Code::TimedOut), None),
            Code::TimedOut,
            "MPICH's srun says 137 for MPI_Abort(4)"
        );
        assert_eq!(code(7, Some(Code::WrongData), None), Code::WrongData);
        assert_eq!(
            code(143, Some(Code::Stopped), None),
            Code::Stopped,
            "USR1 reached the step alone"
        );
    }

    #[test]
    fn without_it_the_launchers_status_is_ours_where_it_can_be() {
        assert_eq!(code(0, None, None), Code::Fine);
        assert_eq!(code(6, None, None), Code::Usage);
        assert_eq!(code(127, None, None), Code::Launch);
        assert_eq!(code(1, None, None), Code::Internal);
        assert_eq!(
            verdict(&ended(1, false, true), None, None).expect("none died"),
            Code::Launch,
            "srun itself failed"
        );
        assert_eq!(
            code(139, Some(Code::Fine), None),
            Code::Launch,
            "a rank failed after all was saved"
        );
    }

    #[test]
    fn a_rank_that_was_killed_is_named_unless_a_stop_was_asked_for() {
        for own in [None, Some(Code::Fine), Some(Code::Stopped)] {
            let error = verdict(&ended(137, true, false), own, None)
                .expect_err("a rank died")
                .to_string();
            assert!(
                error.contains("rank 5 on node3") && error.contains("Killed"),
                "{error}"
            );
        }
        let aborted = process::LauncherEnd {
            lost_first: false,
            ..ended(8, true, false)
        };
        assert_eq!(
            verdict(&aborted, None, None).expect("MPI_Abort(8) took the others along"),
            Code::Launch
        );
        assert_eq!(
            verdict(&ended(137, true, false), Some(Code::WrongData), None).expect("own code"),
            Code::WrongData
        );
        assert_eq!(
            verdict(&ended(137, true, false), None, Some("SIGTERM")).expect("asked"),
            Code::Stopped
        );
    }
}
