//! What Slurm's controller says of itself.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{env::Env, native::nvml::Reading};

/// A controller that is busy or gone holds its clients up for minutes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The site's KillOnBadExit. Asked where the environment does not tell, and by the first rank of a job only: a controller
/// has better things to do than to answer thousands.
pub(super) fn kill_on_bad_exit(root: &Path, env: Env) -> Reading<bool> {
    if env("SLURM_JOB_ID").is_none() {
        return Reading::none("this is not a Slurm job");
    }
    if !crate::world::launch::speaks(env) {
        return Reading::none("the first rank asks");
    }
    let Some(program) = program(root, env) else {
        return Reading::none("there is no scontrol in PATH");
    };
    match answer(&program, &["show", "config"], PATIENCE) {
        Ok(config) => setting(&config).map_or_else(
            || Reading::none("scontrol shows no KillOnBadExit"),
            Reading::of,
        ),
        Err(why) => Reading::none(format!("scontrol show config: {why}")),
    }
}

/// scontrol, as PATH finds it below the root.
fn program(root: &Path, env: Env) -> Option<PathBuf> {
    let path = env("PATH")?;
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders
        .map(|folder| root.join(folder.trim_start_matches('/')).join("scontrol"))
        .find(|program| program.is_file())
}

/// What one of Slurm's commands writes to stdout, where it succeeds within `patience`; else why not.
pub(crate) fn answer(program: &Path, words: &[&str], patience: Duration) -> Result<String, String> {
    let child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let said = stdout.recv_timeout(patience);
    if said.is_err() {
        end(&mut child);
        return Err(format!("it did not answer within {} s", patience.as_secs()));
    }
    match child.wait().map_err(|error| error.to_string())? {
        status if status.success() => Ok(said.unwrap_or_default()),
        status => {
            let complaint = stderr.recv_timeout(patience).unwrap_or_default();
            Err(complaint
                .lines()
                .next()
                .map_or(status.to_string(), |line| line.trim().to_owned()))
        }
    }
}

/// One that has ended by itself meanwhile cannot be killed, and need not be.
fn end(child: &mut Child) {
    if child.kill().is_ok() {
        drop(child.wait());
    }
}

/// All that comes through a pipe: read beside, so that a program that says much and one that says nothing both end.
fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is as good as all.
            drop(pipe.read_to_end(&mut bytes));
        }
        // Nobody waits any more where this fails.
        drop(sender.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

/// `KillOnBadExit           = 1`.
fn setting(config: &str) -> Option<bool> {
    let line = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("KillOnBadExit"))?;
    Some(line.trim_start().strip_prefix('=')?.trim() != "0")
}
