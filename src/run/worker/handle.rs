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
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::message::{FromWorker, ToWorker, WorkerReport, WorkerStart};
use crate::exit::Code;
use crate::nccl_log::subsystems::LogDetail;
use crate::world::{self, World, child, placement, scratch};

/// The longest wait for a worker: what it can tell is not worth more.
const LONGEST: Duration = Duration::from_secs(120);

/// The time within which the last words of a worker that ended come through its pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The time within which a worker that closed its output ends.
const END: Duration = Duration::from_secs(10);

/// A worker process of this rank.
pub(in crate::run) struct Worker {
    child: Child,
    to: ChildStdin,
    from: Receiver<FromWorker>,
    log: PathBuf,
    /// Whether the log is kept, because the worker failed.
    keeps_log: bool,
}

impl Worker {
    /// Starts a worker that sweeps what `words` say, under the environment of this process and
    /// `settings`. To be called before MPI and CUDA start: a process that has them must not be
    /// copied. `name` tells workers of one rank apart.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started or its log has no place.
    pub(in crate::run) fn start(
        name: &str,
        words: impl IntoIterator<Item = OsString>,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Worker> {
        let file = format!(
            "{}.{}.{name}.log",
            placement::host_name(),
            std::process::id()
        );
        let log = scratch::folder()?.join(file);
        let mut child = Command::new(std::env::current_exe().context("this program's own path")?)
            .arg("worker")
            .args(words)
            .envs(LogDetail::Algorithms.variables())
            .envs(settings.iter().copied())
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
        Ok(Worker {
            child,
            to,
            from: receiver,
            log,
            keeps_log: false,
        })
    }

    /// Sends `message` to the worker, and returns its answer. A worker that has ended meanwhile has
    /// said why.
    fn ask(&mut self, message: &ToWorker, until: Instant) -> Result<FromWorker, Why> {
        let line = serde_json::to_string(message).map_err(|error| Why::new(error.to_string()))?;
        match writeln!(self.to, "{line}") {
            Ok(()) => self.hear(until),
            Err(error) => self
                .hear(Instant::now() + LAST_WORDS)
                .and(Err(Why::new(format!(
                    "its worker process does not accept commands: {error}"
                )))),
        }
    }

    fn hear(&mut self, until: Instant) -> Result<FromWorker, Why> {
        match self
            .from
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            Ok(FromWorker::Failed(what)) => Err(Why::new(what)),
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => Err(Why {
                is_late: true,
                ..Why::new("its worker process did not finish in time")
            }),
            Err(RecvTimeoutError::Disconnected) => Err(Why::new(self.how_it_ended())),
        }
    }

    /// Returns how a worker ended that says no more.
    fn how_it_ended(&mut self) -> String {
        match child::end_within(&mut self.child, END) {
            Ok(Some(status)) => format!("its worker process ended with {status}"),
            Ok(None) => format!(
                "its worker process closed its output, but did not end within {} s",
                END.as_secs()
            ),
            Err(error) => format!("its worker process is gone: {error}"),
        }
    }

    /// Keeps the log of a worker that failed, and says where it is.
    fn keep_log<T>(&mut self, step: Result<T, Why>) -> Result<T, Why> {
        step.map_err(|why| {
            self.keeps_log = self.log.exists();
            match self.keeps_log {
                true => Why {
                    what: format!("{}; NCCL's log of it is {}", why.what, self.log.display()),
                    ..why
                },
                false => why,
            }
        })
    }

    /// Runs the workers of all ranks together, and returns what each saw, in rank order, or which
    /// one failed. Every rank calls it alike, and gets the same result.
    ///
    /// # Errors
    /// Returns an error if an answer does not reach the other ranks; that would be a bug.
    pub(in crate::run) fn run(
        mut self,
        start: WorkerStart,
        limit: Duration,
        world: &dyn World,
    ) -> anyhow::Result<Result<Vec<WorkerReport>, WorkerFailure>> {
        let until = Instant::now() + limit.min(LONGEST);
        let ready = self
            .ask(&ToWorker::Start(start), until)
            .and_then(|message| match message {
                FromWorker::Ready(id) => Ok(id),
                _ => Err(Why::new(
                    "its worker process did not report that it is ready",
                )),
            });
        // If one cannot join, none does: NCCL would wait for it.
        let id = match agree(self.keep_log(ready), world)? {
            Ok(mut ids) => ids.swap_remove(0),
            Err(why) => return Ok(Err(why)),
        };
        let ended = self
            .ask(&ToWorker::Id(id), until)
            .and_then(|message| match message {
                FromWorker::Ended(ended) => Ok(*ended),
                _ => Err(Why::new(
                    "its worker process did not report what it observed",
                )),
            });
        let ended = self.keep_log(ended);
        // A worker that waits for others which are gone is of no use any more; and one that ended
        // is waited for.
        drop(self);
        agree(ended, world)
    }
}

/// The failure of a worker, as all ranks know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct WorkerFailure {
    /// A sentence with the rank of the worker.
    pub(in crate::run) what: String,
    /// What the program exits with if it needs the worker.
    pub(in crate::run) code: Code,
}

/// Why a worker failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Why {
    what: String,
    /// Whether it only failed to answer in time; another rank may know why.
    is_late: bool,
}

impl Why {
    fn new(what: impl Into<String>) -> Why {
        Why {
            what: what.into(),
            is_late: false,
        }
    }
}

/// Returns the step of every rank, or a sentence with the rank that failed; one that was only late
/// comes last.
fn agree<T: Serialize + DeserializeOwned>(
    step: Result<T, Why>,
    world: &dyn World,
) -> anyhow::Result<Result<Vec<T>, WorkerFailure>> {
    let all = world::all_gather(world, &step)?;
    let failed = all
        .iter()
        .enumerate()
        .filter_map(|(rank, step)| Some((rank, step.as_ref().err()?)));
    let Some((rank, why)) = failed.min_by_key(|(_, why)| why.is_late) else {
        return Ok(Ok(all.into_iter().flatten().collect()));
    };
    Ok(Err(WorkerFailure {
        what: format!("rank {rank}: {}", why.what),
        code: match why.is_late {
            true => Code::TimedOut,
            false => Code::Nccl,
        },
    }))
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.keeps_log {
            scratch::keep();
        } else {
            let _ = fs::remove_file(&self.log);
        }
    }
}
