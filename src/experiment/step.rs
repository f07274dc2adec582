//! One step: a process of its own, since NCCL reads its settings once per process.

use std::{
    fs::{self, File},
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Instant,
};

use crate::{
    exit::{Code, Failure},
    record::{read, run_meta::RunEnd},
    replay::SavedReplay,
    world::signal,
};

/// The file in a step's folder with what the step printed.
pub(super) const OUTPUT: &str = "output.txt";

/// A step that ended.
#[derive(Debug)]
pub(super) struct StepEnd {
    pub(super) code: Code,
    pub(super) seconds: f64,
    /// Why it did not end well, in its own words.
    pub(super) message: String,
}

/// Runs `words` and waits for them. What they print goes to a file in `folder`. Signals are passed on.
///
/// # Errors
///
/// Returns an error if the process cannot be started, or if the folder cannot be written to.
pub(super) fn run(words: &[String], folder: &Path) -> anyhow::Result<StepEnd> {
    let output = folder.join(OUTPUT);
    let file = create(folder, &output)?;
    let started = Instant::now();
    let status = wait(words, file)?;
    let end = recorded_end(folder);
    let code = match &end {
        Some(end) => end.name,
        None => without_record(status),
    };
    let message = match end {
        Some(end) if !end.message.is_empty() => end.message,
        _ => last_message(&output),
    };
    Ok(StepEnd {
        code,
        seconds: started.elapsed().as_secs_f64(),
        message,
    })
}

fn create(folder: &Path, output: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(folder)
        .and_then(|()| File::create(output))
        .map_err(|error| {
            let what = format!(
                "{} cannot be written: {error}. Name another folder with --out",
                output.display()
            );
            Failure::on_all_ranks(Code::Usage, what)
        })
}

/// Starts `words` in a process group of their own, so that a signal from the terminal reaches them once, through this process.
fn wait(words: &[String], output: File) -> anyhow::Result<ExitStatus> {
    let cannot = |error: io::Error| {
        let what = format!("{} cannot be started: {error}", words[0]);
        Failure::on_all_ranks(Code::Launch, what)
    };
    let stderr = output.try_clone()?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(stderr)
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    Ok(signal::wait_and_relay(&mut child)?)
}

/// Returns the end of a sweep by its `run.json`, or of a replay by its `replay.json`; `None` if neither has it.
fn recorded_end(folder: &Path) -> Option<RunEnd> {
    match read::read_run(&folder.join("run.json")) {
        Some(sweep) => sweep.end,
        None => SavedReplay::read(folder).ok()?.run.end,
    }
}

/// Returns the code of a step that recorded no end.
fn without_record(status: ExitStatus) -> Code {
    if signal::received().is_some() || status.signal().is_some() {
        return Code::Stopped;
    }
    match status.code() {
        // Without a record nothing was measured, whatever the launcher says.
        Some(0) => Code::NothingRan,
        Some(number) => Code::from_number(number).unwrap_or(Code::Launch),
        None => Code::Launch,
    }
}

/// Returns the last line that this program wrote, or else the last line of all.
fn last_message(output: &PathBuf) -> String {
    let text = fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let own = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("pxnbench: "));
    let last = || text.lines().rev().find(|line| !line.trim().is_empty());
    own.or_else(last).unwrap_or("it printed nothing").to_owned()
}
