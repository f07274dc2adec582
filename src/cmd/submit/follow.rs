//! Follows a job to its end: a line when something changes, then what the job itself said last.

use std::{fs, process::Command, thread, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    exit::{CODES, Code, Failure},
    world::signal,
};

/// Between two looks at the queue; a site's controller serves many.
const EVERY: Duration = Duration::from_secs(2);

/// Lines of the job's output that are shown at its end.
const LAST_LINES: usize = 6;

/// Waits for the end of `job` and gives its exit code. A signal ends the waiting, not the job.
///
/// # Errors
/// Where Slurm does not tell how the job ended.
pub(super) fn to_the_end(job: &str) -> anyhow::Result<Code> {
    say!("pxnbench: following job {job}; Ctrl-C ends the following, not the job");
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let mut last = String::new();
    while let Some(state) = in_queue(job) {
        if signal::received().is_some() {
            let what = format!("job {job} goes on without being followed; `scancel {job}` ends it");
            return Err(Failure::everywhere(Code::Stopped, what));
        }
        bar.set_message(format!("job {job}: {state}"));
        let word = state.split(' ').next().unwrap_or_default().to_owned();
        if bar.is_hidden() && word != last {
            say!("pxnbench: job {job}: {state}");
            last = word;
        }
        bar.tick();
        thread::sleep(EVERY);
    }
    bar.finish_and_clear();
    ended(job)
}

/// State, time and reason of a job that is in the queue; `None` once it is not.
fn in_queue(job: &str) -> Option<String> {
    let output = Command::new("squeue").args(["-h", "-j", job, "-t", "all", "-o", "%T %M %r"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    let going = ["PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "STAGE_OUT", "SIGNALING"];
    going.iter().any(|state| text.starts_with(state)).then_some(text)
}

/// How the job ended, from what the controller still knows of it, with the end of its output.
fn ended(job: &str) -> anyhow::Result<Code> {
    let output = Command::new("scontrol").args(["show", "job", "-o", job]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field = |name: &str| {
        let words = text.split_whitespace();
        words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next().map(str::to_owned)
    };
    let Some(state) = field("JobState") else {
        let what = format!("Slurm no longer knows job {job}: its output file, named after it, says how it ended");
        return Err(Failure::everywhere(Code::Launch, what));
    };
    if let Some(file) = field("StdOut") {
        let said = fs::read_to_string(&file).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("pxnbench: ")).collect();
        lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).for_each(|line| say!("{line}"));
        say!("pxnbench: job {job} ended {state}; all it said is in {file}");
    }
    let number = field("ExitCode").and_then(|code| code.split(':').next()?.parse::<u8>().ok());
    Ok(match (state.as_str(), number) {
        ("COMPLETED", _) => Code::Fine,
        ("CANCELLED" | "TIMEOUT" | "PREEMPTED", _) => Code::Stopped,
        (_, Some(number)) => {
            CODES.iter().map(|(code, _)| *code).find(|code| *code as u8 == number).unwrap_or(Code::Launch)
        }
        _ => Code::Launch,
    })
}
