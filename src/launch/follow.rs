//! Follows a job to its end: a line when something changes, then what the job itself said last.

use std::{fmt, fs, path::Path, thread, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    exit::{Code, Failure},
    facts,
    slurm::is_end,
    world::signal,
};

/// The time between two queries; a site's controller serves many users.
const EVERY: Duration = Duration::from_secs(2);

/// How long a query may take before it counts as unanswered.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of the job's output that are shown at its end.
const LAST_LINES: usize = 6;

/// Waits for the end of `job`, and returns its exit code. A signal ends the wait, not the job.
///
/// # Errors
/// Returns an error if Slurm does not tell how the job ended.
pub(super) fn to_the_end(job: &str) -> anyhow::Result<Code> {
    say!("pxnbench: following job {job}; Ctrl-C stops following; the job keeps running");
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let mut last = String::new();
    loop {
        let words = ["-h", "-j", job, "-t", "all", "-o", "%T %M %r"];
        let seen = seen(facts::slurm::answer(Path::new("squeue"), &words, PATIENCE));
        if matches!(&seen, QueueState::Gone)
            || matches!(&seen, QueueState::Queued(state) if is_end(first_word(state)))
        {
            break;
        }
        if signal::received().is_some() {
            let what = format!(
                "no longer following job {job}, which keeps running; `scancel {job}` ends it"
            );
            return Err(Failure::on_all_ranks(Code::Stopped, what));
        }
        let (word, line) = match &seen {
            QueueState::Queued(state) => (first_word(state), format!("job {job}: {state}")),
            QueueState::Gone | QueueState::Unknown(_) => {
                ("?", format!("job {job}: {seen}; asking again"))
            }
        };
        bar.set_message(line.clone());
        if bar.is_hidden() && word != last {
            say!("pxnbench: {line}");
            word.clone_into(&mut last);
        }
        bar.tick();
        thread::sleep(EVERY);
    }
    bar.finish_and_clear();
    ended(job)
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// What squeue says of a job.
enum QueueState {
    /// Its state, time and reason.
    Queued(String),
    /// The queue does not hold it: it ended some minutes ago, as long as Slurm remembers.
    Gone,
    /// squeue failed, and why. A busy controller does not answer in time, and one that starts again
    /// not at all.
    Unknown(String),
}

impl fmt::Display for QueueState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueState::Queued(state) => f.write_str(state),
            QueueState::Gone => f.write_str("not in the queue"),
            QueueState::Unknown(why) => write!(f, "squeue does not report its state ({why})"),
        }
    }
}

/// Parses what squeue says of a job, or why it says nothing.
fn seen(answer: Result<String, String>) -> QueueState {
    match answer {
        Ok(text) => text.lines().next().map_or(QueueState::Gone, |line| {
            QueueState::Queued(line.trim().to_owned())
        }),
        Err(why) if why.contains("Invalid job id") => QueueState::Gone,
        Err(why) => QueueState::Unknown(why),
    }
}

/// Reports how the job ended, from what the controller still knows of it, with the end of its
/// output.
fn ended(job: &str) -> anyhow::Result<Code> {
    let text = facts::slurm::answer(Path::new("scontrol"), &["show", "job", "-o", job], PATIENCE)
        .unwrap_or_default();
    let field = |name: &str| {
        let words = text.split_whitespace();
        words
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='))
            .next()
            .map(str::to_owned)
    };
    let Some(state) = field("JobState") else {
        let what = format!(
            "Slurm no longer knows job {job}: its output file, named after it, says how it ended"
        );
        return Err(Failure::on_all_ranks(Code::Launch, what));
    };
    if let Some(file) = field("StdOut") {
        let said = fs::read_to_string(&file).unwrap_or_default();
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("pxnbench: "))
            .collect();
        lines
            .iter()
            .skip(lines.len().saturating_sub(LAST_LINES))
            .for_each(|line| say!("{line}"));
        say!("pxnbench: job {job} ended {state}; full output: {file}");
    }
    let number = field("ExitCode").and_then(|code| code.split(':').next()?.parse::<i32>().ok());
    Ok(match (state.as_str(), number.and_then(Code::from_number)) {
        ("COMPLETED", _) => Code::Fine,
        ("CANCELLED" | "TIMEOUT" | "PREEMPTED", _) => Code::Stopped,
        // Slurm reports 0 if it ended the job itself: a node that failed, memory that ran out.
        (_, Some(code)) if code != Code::Fine => code,
        _ => Code::Launch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_does_not_answer_is_no_end() {
        let silent = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)";
        assert!(matches!(seen(Err(silent.into())), QueueState::Unknown(why) if why == silent));
        assert!(matches!(
            seen(Err("slurm_load_jobs error: Invalid job id specified".into())),
            QueueState::Gone
        ));
        assert!(matches!(seen(Ok(String::new())), QueueState::Gone));
        assert!(
            matches!(seen(Ok("RUNNING 1:02 None\n".into())), QueueState::Queued(state) if state == "RUNNING 1:02 None")
        );
    }
}
