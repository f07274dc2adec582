//! What Slurm's commands report.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::tree::below;
use crate::{
    env::Env,
    native::nvml::Reading,
    world::{child, launch},
};

/// How long to wait for Slurm's controller: one that is busy or gone blocks its clients for
/// minutes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the site's KillOnBadExit. Only the first rank of a job asks for it, and only if the
/// environment does not tell: a controller should not have to answer thousands of ranks.
pub(super) fn kill_on_bad_exit(root: &Path, env: Env) -> Reading<bool> {
    if env("SLURM_KILL_BAD_EXIT").is_some() {
        return Reading::none("SLURM_KILL_BAD_EXIT is set");
    }
    if env("SLURM_JOB_ID").is_none() {
        return Reading::none("this is not a Slurm job");
    }
    if !launch::speaks(env) {
        return Reading::none("only the first rank asks");
    }
    let Some(scontrol) = find_scontrol(root, env) else {
        return Reading::none("there is no scontrol in PATH");
    };
    match answer(&scontrol, &["show", "config"], PATIENCE) {
        Ok(config) => match parse_kill_on_bad_exit(&config) {
            Some(is_on) => Reading::of(is_on),
            None => Reading::none("scontrol shows no KillOnBadExit"),
        },
        Err(why) => Reading::none(format!("scontrol show config: {why}")),
    }
}

/// Finds scontrol in the folders of PATH, below the root.
fn find_scontrol(root: &Path, env: Env) -> Option<PathBuf> {
    let path = env("PATH")?;
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders
        .map(|folder| below(root, folder).join("scontrol"))
        .find(|program| program.is_file())
}

/// Runs one of Slurm's commands and returns its stdout.
///
/// # Errors
/// Returns an error if it cannot be started, does not answer within `patience`, or fails: then the
/// error is the first line of its stderr that has words.
pub(crate) fn answer(
    program: &Path,
    arguments: &[&str],
    patience: Duration,
) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    let stdout = child::read_all(child.stdout.take(), child::MOST_BYTES);
    let stderr = child::read_all(child.stderr.take(), child::MOST_BYTES);
    let late = || format!("it did not answer within {} s", patience.as_secs());
    let Ok(answer) = stdout.recv_timeout(patience) else {
        kill(&mut child);
        return Err(late());
    };
    // It may go on although it says no more.
    let left = patience.saturating_sub(started.elapsed());
    let ended = child::end_within(&mut child, left).map_err(|error| error.to_string())?;
    let Some(status) = ended else {
        kill(&mut child);
        return Err(late());
    };
    if status.success() {
        return Ok(String::from_utf8_lossy(&answer).into_owned());
    }
    let complaint = stderr.recv_timeout(patience).unwrap_or_default();
    let complaint = String::from_utf8_lossy(&complaint);
    // Open MPI draws a line first.
    let has_words = |line: &&str| line.contains(char::is_alphabetic);
    match complaint.lines().find(has_words) {
        Some(line) => Err(line.trim().to_owned()),
        None => Err(status.to_string()),
    }
}

/// Kills a child. One that has exited meanwhile cannot be killed, and need not be.
fn kill(child: &mut Child) {
    if child.kill().is_ok() {
        drop(child.wait());
    }
}

/// Finds the setting in a line such as `KillOnBadExit           = 1`.
fn parse_kill_on_bad_exit(config: &str) -> Option<bool> {
    let mut lines = config.lines();
    let rest = lines.find_map(|line| line.trim().strip_prefix("KillOnBadExit"))?;
    let value = rest.trim_start().strip_prefix('=')?;
    Some(value.trim() != "0")
}
