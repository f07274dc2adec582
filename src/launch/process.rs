//! Processes that a launch starts: steps on trial with a deadline, and the run itself.

use std::{
    io::{self, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    exit::{Code, Failure},
    slurm::{lost, step},
    units::Bytes,
    world::{
        child,
        child_end::{ChildEnd, ChildLimits},
        signal,
    },
};

/// How long a launcher that is asked to end may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same for the launcher of the run, whose ranks save what they measured.
const PATIENCE_WITH_RUN: Duration = Duration::from_secs(15);

/// How long the last of what a launcher printed may take once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The end of a step on trial.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Whether it ended well, in time.
    pub(super) ok: bool,
    /// What it printed.
    pub(super) stdout: String,
    /// What it and its launcher printed on stderr.
    pub(super) stderr: String,
    /// The limit, if it did not end within it.
    pub(super) late: Option<Duration>,
}

impl Trial {
    /// Returns why it failed: what it said itself, or `what`, such as "they did not start".
    pub(super) fn why(&self, what: &str) -> String {
        match (self.late, telling(&self.stderr)) {
            (Some(limit), _) => format!("{what} within {} s", limit.as_secs()),
            (None, Some(line)) => line.trim_start_matches("pxnbench: ").to_owned(),
            (None, None) => what.to_owned(),
        }
    }
}

/// Returns the command as a child that signals reach through this process only, in an environment
/// that describes the job but not the step around this process.
fn command(words: &[String], inside_step: bool) -> Command {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .process_group(0);
    signal::stop_with_this_process(&mut command);
    for (name, _) in
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
    {
        if step::leaks(&name) {
            command.env_remove(name);
        }
    }
    // With sbatch --export=NONE steps would start without PATH and without the level's variables.
    command.env("SLURM_EXPORT_ENV", "ALL");
    // As srun's option says; here too, so that the ranks know.
    command.env("SLURM_KILL_BAD_EXIT", "1");
    if inside_step {
        // For the srun that mpirun calls.
        command.env("SLURM_OVERLAP", "1");
    }
    command
}

/// Runs a command to its end or to the deadline.
///
/// # Errors
/// Returns an error if a signal asks to stop, or if the command prints without end.
pub(super) fn try_out(
    words: &[String],
    inside_step: bool,
    limit: Duration,
) -> anyhow::Result<Trial> {
    let child = command(words, inside_step)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            return Ok(Trial {
                stderr: format!("{}: {error}", words[0]),
                ..Trial::default()
            });
        }
    };
    let is_endless = Arc::new(AtomicBool::new(false));
    let stdout = child::read_all_and_tell(
        child.stdout.take(),
        child::MOST_BYTES,
        Arc::clone(&is_endless),
    );
    let stderr = child::read_all_and_tell(
        child.stderr.take(),
        child::MOST_BYTES,
        Arc::clone(&is_endless),
    );
    let status = wait_or_end(&mut child, limit, &is_endless)?;
    if let Some(name) = signal::received() {
        return Err(Failure::on_all_ranks(
            Code::Stopped,
            format!("stopped by {name} before the run began"),
        ));
    }
    if is_endless.load(Ordering::SeqCst) {
        return Err(prints_without_end(&words[0]));
    }
    // A task that outlives its launcher may hold a pipe open: what came until now is enough.
    let text = |from: mpsc::Receiver<Vec<u8>>| {
        let bytes = from.recv_timeout(Duration::from_secs(2));
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    };
    Ok(Trial {
        ok: status.is_some_and(|status| status.success()),
        stdout: text(stdout),
        stderr: text(stderr),
        late: status.is_none().then_some(limit),
    })
}

/// Waits for the end of `child`. Ends it, and returns nothing, after `limit`, on a signal, and once
/// its output `is_endless`.
fn wait_or_end(
    child: &mut Child,
    limit: Duration,
    is_endless: &AtomicBool,
) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let is_over = started.elapsed() > limit || is_endless.load(Ordering::SeqCst);
        if signal::received().is_some() || is_over {
            child::end(child, PATIENCE)?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn prints_without_end(program: &str) -> anyhow::Error {
    let what = format!(
        "{program} prints without end: more than {} came. Check whether it is a wrapper that is \
         broken: run {program} --version",
        Bytes(child::MOST_BYTES)
    );
    Failure::on_all_ranks(Code::Launch, what)
}

/// The end of the run, as the launcher shows it.
#[derive(Debug, Default)]
pub(super) struct LauncherEnd {
    /// The launcher's exit status; 128 plus the signal if one ended it.
    pub(super) status: i32,
    /// The first rank of which the launcher says that a signal ended it.
    pub(super) lost: Option<lost::LostRank>,
    /// Whether the launcher said so before it ended the other ranks: they were not killed together.
    pub(super) lost_first: bool,
    /// The node of which the launcher says that it vanished.
    pub(super) lost_node: Option<String>,
    /// The launcher's own first complaint, which is not about a rank.
    pub(super) complaint: Option<String>,
    /// Whether it has said that it ends the ranks.
    pub(super) is_ending: bool,
}

/// Runs the command, hands signals on to it, and watches what its launcher says on stderr.
///
/// # Errors
/// Returns an error if it cannot be started.
pub(super) fn run(words: &[String], inside_step: bool) -> anyhow::Result<LauncherEnd> {
    let cannot = |error| {
        Failure::on_all_ranks(
            Code::Launch,
            format!("{} cannot be started: {error}", words[0]),
        )
    };
    let mut child = command(words, inside_step)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let said = Arc::<Mutex<LauncherEnd>>::default();
    let stderr = child.stderr.take();
    let all_is_said = stderr.map(|stderr| listen(stderr, Arc::clone(&said)));
    let limits = ChildLimits {
        until: None,
        patience: PATIENCE_WITH_RUN,
    };
    let end = ChildEnd::of(&mut child, limits)?;
    if end.was_killed {
        say!(
            "pxnbench: {} had not ended {} s after it was asked to, and was killed",
            words[0],
            PATIENCE_WITH_RUN.as_secs()
        );
    }
    if let Some(all_is_said) = all_is_said {
        // What outlives the launcher may hold the pipe open: what came until now is enough.
        let _ = all_is_said.recv_timeout(LAST_WORDS);
    }
    let said = std::mem::take(&mut *locked(&said));
    Ok(LauncherEnd {
        status: end.status.map_or(128 + libc::SIGKILL, number),
        ..said
    })
}

fn locked(said: &Mutex<LauncherEnd>) -> MutexGuard<'_, LauncherEnd> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(status: ExitStatus) -> i32 {
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(1)
}

/// Passes lines on as they come, on a thread of its own, and notes what they say. Tells when the
/// last one has come.
fn listen(stderr: impl Read + Send + 'static, said: Arc<Mutex<LauncherEnd>>) -> mpsc::Receiver<()> {
    let (sender, all_is_said) = mpsc::channel();
    thread::spawn(move || {
        for line in child::lines(stderr) {
            // A closed stderr is no reason to end the run.
            let _ = io::stderr().write_all(&line);
            locked(&said).hear(&String::from_utf8_lossy(&line));
        }
        // If this fails, nobody waits any more.
        let _ = sender.send(());
    });
    all_is_said
}

impl LauncherEnd {
    /// Notes what a line of the launcher says.
    fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        if self.lost.is_none() {
            self.lost = lost::parse(line);
            self.lost_first = self.lost.is_some() && !self.is_ending;
        }
        if self.lost_node.is_none() {
            self.lost_node = lost::parse_node(line).map(str::to_owned);
        }
        self.is_ending |= ["MPI_ABORT was invoked", "Job step aborted", "*** STEP "]
            .iter()
            .any(|end| line.contains(end));
        let own = ["srun: error: ", "srun: fatal: "]
            .iter()
            .any(|start| line.starts_with(start));
        if self.complaint.is_none() && own && !line.contains(": task") {
            self.complaint = Some(line.to_owned());
        }
    }
}

/// Returns the line of `stderr` that says most: the loader's, else the first of this program, else
/// of the launcher.
pub(super) fn telling(stderr: &str) -> Option<&str> {
    let lines = || {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let with = |what: &'static str| lines().find(|line| line.contains(what));
    with("error while loading shared libraries")
        .or_else(|| with("version `GLIBC"))
        .or_else(|| with("not built with SLURM's PMI"))
        .or_else(|| with("pxnbench: "))
        .or_else(|| with("execve(): "))
        .or_else(|| with("error: "))
        .or_else(|| lines().find(|line| line.contains(char::is_alphabetic)))
}
