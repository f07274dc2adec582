//! The run, and what its end means: the launcher's exit status, what the ranks wrote down, and who
//! died.

use std::{
    io::{self, Write},
    path::Path,
};

use super::{
    context::{Launch, exported},
    process, requeue,
    results::{self, RunFolder},
};
use crate::{
    exit::{Code, Failure},
    output::lock::write_whole_alone,
    record::{self, FailedProcess, RunEnd, RunMeta, read},
    slurm::step::{Launcher, StepShape},
    world::{
        cause::{self, FailureNote},
        signal,
    },
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
    let before = (folder.runs(), folder.failure_notes());
    let ended = process::run(&step.command(launcher, &exported()), step.inside_step)?;
    let written = folder
        .runs()
        .into_iter()
        .find(|(path, at)| before.0.get(path) != Some(at))
        .map(|(path, _)| path);
    let mut notes = folder.failure_notes();
    notes.retain(|path| !before.1.contains(path));
    let note = cause::first_at(&notes);
    let mut run = written.as_deref().and_then(read::read_run);
    if let (Some(run), Some(path), Some(note)) = (&mut run, &written, &note) {
        complete(run, path, note);
    }
    if let (Some(run), Some(path)) = (&run, &written) {
        say!("pxnbench: {}", results::summary(run, path));
    }
    let known = WrittenEnd {
        run: run.as_ref().and_then(|run| run.end.as_ref()),
        note,
    };
    let code = verdict(&ended, &known, signal::received())?;
    if let Some(run) = &run {
        requeue::requeue_if_asked(launch, run)?;
    }
    Ok(code)
}

/// Writes the end of a run into its `run.json` at `path` if rank 0 did not live to do so.
fn complete(run: &mut RunMeta, path: &Path, note: &FailureNote) {
    if run.end.is_some() {
        return;
    }
    run.ended_at = Some(record::now());
    run.end = Some(RunEnd {
        code: note.end.code as u8,
        name: note.end.code,
        message: note.end.sentence.clone(),
        failed: Some(FailedProcess::from(note)),
    });
    let text = serde_json::to_vec_pretty(run).map_err(io::Error::other);
    let written = text.and_then(|text| write_whole_alone(path, |file| file.write_all(&text)));
    if let Err(error) = written {
        say!("pxnbench: {} cannot be written: {error}", path.display());
    }
}

/// What the ranks wrote down of their end.
#[derive(Default)]
pub(super) struct WrittenEnd<'a> {
    /// The end in `run.json`, which rank 0 wrote.
    pub(super) run: Option<&'a RunEnd>,
    /// The first note of another rank beside it.
    pub(super) note: Option<FailureNote>,
}

impl WrittenEnd<'_> {
    /// Returns the failure of a rank that rank 0 did not live to write down, or did not know of.
    fn unwritten_failure(&self) -> Option<&FailureNote> {
        let is_written = self
            .run
            .is_some_and(|end| !matches!(end.name, Code::Fine | Code::Stopped));
        self.note.as_ref().filter(|_| !is_written)
    }

    /// Returns whether the ranks found out which one failed first.
    fn names_a_rank(&self) -> bool {
        self.note.is_some() || self.run.is_some_and(|end| end.failed.is_some())
    }

    /// Returns what the ranks found out about the loss of rank `rank`, if they did.
    fn clause_on(&self, rank: &str) -> Option<&str> {
        // A rank that failed by itself has another code.
        let of_run = self
            .run
            .filter(|end| end.name == Code::Launch)
            .and_then(|end| Some((end.failed.as_ref()?.rank, end.message.as_str())));
        let of_note = self
            .note
            .as_ref()
            .filter(|note| note.end.code == Code::Launch)
            .map(|note| (note.process.rank, note.end.sentence.as_str()));
        let mut all = of_run.into_iter().chain(of_note);
        let (_, sentence) = all.find(|(failed, _)| failed.to_string() == rank)?;
        Some(sentence.split_once("; ")?.1)
    }
}

/// Returns the exit code. What the run wrote down counts more than the launcher's status, which
/// some launchers replace by their own. But a rank that a signal killed wrote nothing, and those
/// that were stopped because of it report a stop that was requested.
pub(super) fn verdict(
    ended: &process::LauncherEnd,
    written: &WrittenEnd,
    asked_to_stop: Option<&str>,
) -> anyhow::Result<Code> {
    let own = written.run.map(|end| end.name);
    let is_failure = ended.status != 0 && asked_to_stop.is_none();
    if is_failure && let Some(sentence) = loss(ended, written) {
        return Err(Failure::on_all_ranks(Code::Launch, sentence));
    }
    if is_failure && let Some(note) = written.unwritten_failure() {
        return Err(Failure::on_all_ranks(
            note.end.code,
            note.end.sentence.as_str(),
        ));
    }
    let was_stopped = own.is_none_or(|code| code == Code::Fine);
    if asked_to_stop.is_some() && was_stopped && ended.status != 0 {
        return Ok(Code::Stopped);
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

/// Returns the sentence on a rank that a signal ended or a node that vanished, if that is what
/// ended the run.
fn loss(ended: &process::LauncherEnd, written: &WrittenEnd) -> Option<String> {
    let own = written.run.map(|end| end.name);
    let may_be_lost = match own {
        // Ranks that MPI_Abort took along are killed too: then the first who was is not the one to
        // blame.
        None => ended.lost_first,
        // Those that live report a stop, or which one they lost.
        Some(code) => matches!(code, Code::Fine | Code::Stopped | Code::Launch),
    };
    if let Some(node) = &ended.lost_node {
        return Some(format!(
            "{node} vanished with its ranks, which ended the run: the node failed, or the network \
             to it. Finished cases are kept"
        ));
    }
    let lost = ended.lost.as_ref()?;
    let clause = written.clause_on(&lost.rank);
    // The ranks know better than the launcher which one was the first.
    if clause.is_none() && (!may_be_lost || written.names_a_rank()) {
        return None;
    }
    let why = clause.map_or(String::new(), |clause| format!("; {clause}"));
    Some(format!(
        "rank {} on {} was ended by a signal ({}), which ended the run{why}; finished cases are \
         kept",
        lost.rank, lost.node, lost.by
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{slurm::lost::LostRank, world::end_of_job::EndOfJob};

    fn ended(status: i32, lost: bool, complaint: bool) -> process::LauncherEnd {
        process::LauncherEnd {
            status,
            lost_first: lost,
            lost: lost.then(|| LostRank {
                rank: "5".into(),
                node: "node3".into(),
                by: "Killed".into(),
            }),
            lost_node: None,
            is_ending: false,
            complaint: complaint.then(|| "srun: error: Unable to create step".into()),
        }
    }

    /// The verdict if `run.json` says `own`.
    fn judge(
        ended: &process::LauncherEnd,
        own: Option<Code>,
        signal: Option<&str>,
    ) -> anyhow::Result<Code> {
        let end = own.map(|name| RunEnd {
            code: name as u8,
            name,
            message: String::new(),
            failed: None,
        });
        let written = WrittenEnd {
            run: end.as_ref(),
            note: None,
        };
        verdict(ended, &written, signal)
    }

    fn code(status: i32, own: Option<Code>, signal: Option<&str>) -> Code {
        judge(&ended(status, false, false), own, signal).expect("no rank died")
    }

    fn note(rank: u32, code: Code, sentence: &str) -> FailureNote {
        FailureNote {
            process: FailedProcess {
                rank,
                host: "node3".into(),
                pid: 77,
                at: record::exact_now(),
            },
            end: EndOfJob {
                code,
                sentence: sentence.into(),
            },
        }
    }

    #[test]
    fn a_note_counts_if_rank_0_wrote_nothing_of_it() {
        let cuda = note(1, Code::Cuda, "rank 1 on node3: cuLaunchKernel failed");
        let stopped = RunEnd {
            code: 9,
            name: Code::Stopped,
            message: "stopped by SIGTERM".into(),
            failed: None,
        };
        for run in [None, Some(&stopped)] {
            let written = WrittenEnd {
                run,
                note: Some(cuda.clone()),
            };
            let error = verdict(&ended(143, false, false), &written, None).expect_err("a failure");
            assert_eq!(crate::exit::code_of(&error), Code::Cuda);
            assert_eq!(error.to_string(), cuda.end.sentence);
            let asked = verdict(&ended(143, false, false), &written, Some("SIGTERM"));
            assert_eq!(asked.expect("a stop"), Code::Stopped);
        }
    }

    #[test]
    fn what_the_ranks_found_out_is_said_of_a_rank_that_was_killed() {
        let why = "the kernel log says: Out of memory: Killed process 77 (pxnbench)";
        let sentence = format!("rank 5 on h (pid 77) was killed; {why}");
        let written = WrittenEnd {
            run: None,
            note: Some(note(5, Code::Launch, &sentence)),
        };
        let error = verdict(&ended(137, true, false), &written, None).expect_err("a rank died");
        assert_eq!(
            error.to_string(),
            format!(
                "rank 5 on node3 was ended by a signal (Killed), which ended the run; {why}; \
                 finished cases are kept"
            )
        );
    }

    #[test]
    fn a_node_that_vanished_is_named() {
        let gone = process::LauncherEnd {
            lost_node: Some("node7".into()),
            ..ended(1, false, true)
        };
        let error = judge(&gone, Some(Code::Stopped), None).expect_err("a node is gone");
        assert_eq!(crate::exit::code_of(&error), Code::Launch);
        assert!(error.to_string().starts_with("node7 vanished"), "{error}");
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
            judge(&ended(1, false, true), None, None).expect("none died"),
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
            let error = judge(&ended(137, true, false), own, None)
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
            judge(&aborted, None, None).expect("MPI_Abort(8) took the others along"),
            Code::Launch
        );
        assert_eq!(
            judge(&ended(137, true, false), Some(Code::WrongData), None).expect("own code"),
            Code::WrongData
        );
        assert_eq!(
            judge(&ended(137, true, false), None, Some("SIGTERM")).expect("asked"),
            Code::Stopped
        );
    }
}
