//! The rank's side of its worker.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;

use super::message::{Ended, FromWorker, Start, ToWorker};
use crate::world::{self, World, place};

/// Longer than this nobody waits for a worker: what it would tell is worth no more.
const LONGEST: Duration = Duration::from_secs(120);

/// What a worker said before it ended comes through its pipe within this time.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a worker logs: all that the proof reads, and the algorithms.
const LOGGED: [(&str, &str); 2] = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,TUNING")];

/// A worker process of this rank.
pub(in crate::cmd) struct Worker {
    child: Child,
    to: ChildStdin,
    from: Receiver<FromWorker>,
    log: PathBuf,
    /// The log is worth reading: the worker failed.
    keeps_log: bool,
}

impl Worker {
    /// Starts a worker that sweeps what `words` say, under the environment of this process and `settings`. To be called
    /// before MPI and CUDA start: a process that has them must not be copied. `name` tells workers of one rank apart.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub(in crate::cmd) fn start(
        name: &str,
        words: impl IntoIterator<Item = OsString>,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Worker> {
        let file = format!("pxnbench-nccl.{}.{}.{name}.log", place::host_name(), std::process::id());
        let log = std::env::temp_dir().join(file);
        let mut child = Command::new(std::env::current_exe().context("this program's own path")?)
            .arg("worker")
            .args(words)
            .envs(LOGGED.iter().chain(settings).copied())
            .env("NCCL_DEBUG_FILE", &log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a worker process cannot be started")?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (to, from) = to.zip(from).context("a worker process has no pipes")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // NCCL before 2.22 prints its version to stdout: what is no message is passed over.
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if let Ok(message) = serde_json::from_str(&line)
                    && sender.send(message).is_err()
                {
                    return;
                }
            }
        });
        Ok(Worker { child, to, from: receiver, log, keeps_log: false })
    }

    fn tell(&mut self, message: &ToWorker) -> Result<(), String> {
        let line = serde_json::to_string(message).map_err(|error| error.to_string())?;
        writeln!(self.to, "{line}").map_err(|error| format!("its worker does not listen: {error}"))
    }

    /// Tells the worker something, and hears what it says to it. One that has ended meanwhile has said why.
    fn ask(&mut self, message: &ToWorker, until: Instant) -> Result<FromWorker, String> {
        match self.tell(message) {
            Ok(()) => self.hear(until),
            Err(why) => self.hear(Instant::now() + LAST_WORDS).and(Err(why)),
        }
    }

    fn hear(&mut self, until: Instant) -> Result<FromWorker, String> {
        match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(FromWorker::Failed(what)) => Err(what),
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => Err("its worker did not end in time".into()),
            Err(RecvTimeoutError::Disconnected) => Err(match self.child.wait() {
                Ok(status) => format!("its worker ended with {status}"),
                Err(error) => format!("its worker is gone: {error}"),
            }),
        }
    }

    /// Lets the workers of all ranks run together, and gives what each saw, in rank order; a sentence where it failed. Every
    /// rank calls it alike.
    ///
    /// # Errors
    /// Where an answer does not reach the other ranks; that would be a bug.
    pub(in crate::cmd) fn run(
        mut self,
        start: Start,
        limit: Duration,
        world: &dyn World,
    ) -> anyhow::Result<Vec<Result<Ended, String>>> {
        let until = Instant::now() + limit.min(LONGEST);
        let is_first = start.rank == 0;
        let mut told = self.tell(&ToWorker::Start(start));
        let mut id = Vec::new();
        if is_first && told.is_ok() {
            told = self.hear(until).and_then(|message| match message {
                FromWorker::Id(bytes) => {
                    id = bytes;
                    Ok(())
                }
                _ => Err("its worker did not say NCCL's unique id".into()),
            });
        }
        let id = world.broadcast(&id);
        let ended = match (told, id.is_empty()) {
            (Err(why), _) => Err(why),
            (Ok(()), true) => Err("the worker of rank 0 could not start".into()),
            (Ok(()), false) => self.ask(&ToWorker::Id(id), until).and_then(|message| match message {
                FromWorker::Ended(ended) => Ok(*ended),
                _ => Err("its worker did not say what it saw".into()),
            }),
        };
        let ended = ended.map_err(|why| {
            self.keeps_log = self.log.exists();
            let log =
                if self.keeps_log { format!("; NCCL's log of it is {}", self.log.display()) } else { String::new() };
            format!("{why}{log}")
        });
        // A worker that waits for others which are gone is of no use any more; and one that ended is waited for.
        drop(self);
        world::gather(world, &ended)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.keeps_log {
            let _ = fs::remove_file(&self.log);
        }
    }
}
