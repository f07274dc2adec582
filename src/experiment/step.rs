//! One step: a process of its own, since NCCL reads its settings once per process.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::budget::StepLimit;
use crate::{
    exit::{Code, Failure},
    output::target,
    record::{read, run_meta::RunEnd},
    replay::SavedReplay,
    visible,
    world::{
        child_end::{ChildEnd, ChildLimits},
        signal,
    },
};

/// The file in a step's folder with what the step printed.
pub(super) const OUTPUT: &str = "output.txt";

/// Bytes at the end of what a step printed in which its message is looked for.
const MOST_BYTES: u64 = 64 << 10;

/// Characters of a message.
const MOST_LETTERS: usize = 1000;

/// How long a step may take once it is asked to end. Its launcher ends the ranks, which save what
/// they measured.
const PATIENCE: Duration = Duration::from_secs(20);

/// A step that ended.
#[derive(Debug)]
pub(super) struct StepEnd {
    pub(super) code: Code,
    pub(super) seconds: f64,
    /// Why it did not end well, in its own words if it has any.
    pub(super) message: String,
    /// Whether it was ended because its time was over.
    pub(super) was_late: bool,
}

/// Runs `words` and waits for them, but not beyond `limit`. What they print goes to a file in
/// `folder`. Signals are passed on.
///
/// # Errors
///
/// Returns an error if the process cannot be started, or if the folder cannot be written to.
pub(super) fn run(
    words: &[String],
    folder: &Path,
    limit: Option<StepLimit>,
) -> anyhow::Result<StepEnd> {
    let output = folder.join(OUTPUT);
    let file = create(folder, &output)?;
    let started = Instant::now();
    let end = wait(words, file, limit)?;
    let recorded = recorded_end(folder);
    let code = match &recorded {
        // What hung afterwards has no part in its times.
        Some(recorded) if recorded.name == Code::Fine => Code::Fine,
        _ if end.was_late => Code::TimedOut,
        Some(recorded) => recorded.name,
        None => without_record(end.status),
    };
    let message = match (forced(&end, limit), recorded) {
        (Some(message), _) => message,
        (None, Some(recorded)) if !recorded.message.is_empty() => recorded.message,
        _ => last_message(&output),
    };
    Ok(StepEnd {
        code,
        seconds: started.elapsed().as_secs_f64(),
        message,
        was_late: end.was_late,
    })
}

/// Creates the file in a step's folder. Both have names that can be guessed, so a link there is
/// somebody else's.
fn create(folder: &Path, output: &Path) -> anyhow::Result<File> {
    if let Some(link) = [folder, output].into_iter().find(|path| path.is_symlink()) {
        let what = format!(
            "{} is a symbolic link that pxnbench did not create. Name another folder with --out",
            link.display()
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    fs::create_dir_all(folder)
        .and_then(|()| target::create(output))
        .map_err(|error| {
            let what = format!(
                "{} cannot be written: {error}. Name another folder with --out",
                output.display()
            );
            Failure::on_all_ranks(Code::Usage, what)
        })
}

/// Starts `words` in a process group of their own, so that a signal from the terminal reaches them
/// once, through this process.
fn wait(words: &[String], output: File, limit: Option<StepLimit>) -> anyhow::Result<ChildEnd> {
    let cannot = |error: io::Error| {
        let what = format!(
            "{} cannot be started: {error}. Name another command with --start",
            words[0]
        );
        Failure::on_all_ranks(Code::Launch, what)
    };
    let stderr = output.try_clone()?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(stderr)
        .process_group(0);
    signal::stop_with_this_process(&mut command);
    let mut child = command.spawn().map_err(cannot)?;
    let limits = ChildLimits {
        until: limit.map(|limit| limit.until),
        patience: PATIENCE,
    };
    Ok(ChildEnd::of(&mut child, limits)?)
}

/// Returns what it took to end a step that did not end when it was to.
fn forced(end: &ChildEnd, limit: Option<StepLimit>) -> Option<String> {
    let how = match (end.was_killed, end.status) {
        (false, _) => "was ended",
        (true, Some(_)) => "was killed",
        (true, None) => "is still there although it was killed",
    };
    let patience = PATIENCE.as_secs();
    match limit.filter(|_| end.was_late) {
        Some(limit) => Some(format!(
            "it had not ended {:.0} s after the time was over, and {how}",
            limit.grace.as_secs_f64()
        )),
        None => end
            .was_killed
            .then(|| format!("it had not ended {patience} s after it was asked to, and {how}")),
    }
}

/// Returns the end of a sweep by its `run.json`, or of a replay by its `replay.json`; `None` if
/// neither has it.
fn recorded_end(folder: &Path) -> Option<RunEnd> {
    match read::read_run(&folder.join("run.json")) {
        Some(sweep) => sweep.end,
        None => SavedReplay::read(folder).ok()?.run.end,
    }
}

/// Returns the code of a step that recorded no end.
fn without_record(status: Option<ExitStatus>) -> Code {
    let by_signal = status.and_then(|status| status.signal());
    if signal::received().is_some() || by_signal.is_some() {
        return Code::Stopped;
    }
    match status.and_then(|status| status.code()) {
        // Without a record nothing was measured, whatever the launcher says.
        Some(0) => Code::NothingRan,
        Some(number) => Code::from_number(number).unwrap_or(Code::Launch),
        None => Code::Launch,
    }
}

/// Returns the last line that this program wrote, or else the last line of all, as far as the end
/// of the file has them.
pub fn last_message(output: &Path) -> String {
    let text = end_of(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let own = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("pxnbench: "));
    let last = || text.lines().rev().find(|line| !line.trim().is_empty());
    let message = own.or_else(last).unwrap_or("it printed nothing");
    visible::beginning(message, MOST_LETTERS).into_owned()
}

/// Returns the last bytes of a file: a launcher may print without bound.
fn end_of(output: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(output)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
    let mut text = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the message of a step that printed `text`.
    fn message(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join(OUTPUT);
        fs::write(&output, text).expect("written");
        last_message(&output)
    }

    #[test]
    fn the_own_message_is_found_behind_what_a_launcher_prints() {
        let noise = "a line of a launcher\n".repeat(1_000_000);
        let text = format!("{noise}pxnbench: rank 1 failed\nmpirun: it ended\n\n");
        assert_eq!(message(&text), "rank 1 failed");
        assert_eq!(message(&format!("{noise}boom\n \n")), "boom");
        assert_eq!(message(""), "it printed nothing");
    }

    #[test]
    fn a_planted_link_is_refused_and_never_written_through() {
        let place = tempfile::tempdir().expect("a folder");
        let victim = place.path().join("victim");
        fs::create_dir(&victim).expect("made");
        let linked = place.path().join("linked");
        symlink(&victim, &linked).expect("planted");
        let step = place.path().join("step");
        fs::create_dir(&step).expect("made");
        symlink(victim.join("mine"), step.join(OUTPUT)).expect("planted");
        for (folder, link) in [(&linked, &linked), (&step, &step.join(OUTPUT))] {
            let error = create(folder, &folder.join(OUTPUT)).expect_err("a link");
            let expected = format!(
                "{} is a symbolic link that pxnbench did not create. Name another folder with \
                 --out",
                link.display()
            );
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(fs::read_dir(&victim).expect("a folder").count(), 0);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let message = message(&"x".repeat(1_000_000));
        assert_eq!(message.chars().count(), MOST_LETTERS + 1);
        assert!(message.ends_with("x…"));
    }
}
