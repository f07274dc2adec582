//! kubectl, which does the talking: it knows the cluster, and who its user is there.

use std::{
    ffi::OsString,
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{names::ObjectName, refusal};
use crate::{
    env,
    exit::{Code, Failure},
    input::why_no_json,
    world::{child, signal},
};

/// How many times as long as one request kubectl may take altogether: it is better placed to say
/// what is wrong, so it gives up first.
const REQUESTS: u32 = 2;

/// The same for answers that take time: a log, or files.
const REQUESTS_FOR_FILES: u32 = 8;

/// How often a wait for lines looks for a signal.
const LOOK: Duration = Duration::from_millis(100);

/// How long kubectl may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The most bytes that are read of what kubectl says on stderr.
const MOST_WORDS: u64 = 64 << 10;

/// kubectl, for one namespace.
#[derive(Clone, Debug)]
pub(super) struct Kubectl {
    program: OsString,
    namespace: Option<ObjectName>,
    request_timeout: Duration,
}

/// What kubectl has answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// Whether it did what it was asked to.
    pub(super) is_ok: bool,
    /// What it printed.
    pub(super) stdout: Vec<u8>,
    /// What it said.
    pub(super) stderr: String,
}

impl Kubectl {
    /// Returns the kubectl that the variable KUBECTL names, or that of PATH. Without a namespace,
    /// kubectl's context has one.
    pub(super) fn new(namespace: Option<ObjectName>, request_timeout: Duration) -> Kubectl {
        let named = std::env::var_os("KUBECTL").filter(|path| !path.is_empty());
        Kubectl {
            program: named.unwrap_or_else(|| "kubectl".into()),
            namespace,
            request_timeout,
        }
    }

    /// Returns the option that a user would give to kubectl for this namespace, with a blank before
    /// it.
    pub(super) fn namespace_option(&self) -> String {
        let namespace = self.namespace.as_ref();
        namespace.map_or(String::new(), |name| format!(" -n {name}"))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words);
        if let Some(namespace) = &self.namespace {
            command.arg("--namespace").arg(namespace.to_string());
        }
        // A signal for this process is not for kubectl, which is ended in an orderly way.
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(&self, words: &[&str], end_of_line: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.command(words);
        command.args(end_of_line);
        command.spawn().map_err(|error| {
            let what = format!(
                "{} cannot be started ({error}). Install kubectl, or set KUBECTL to its path",
                self.program.to_string_lossy()
            );
            Failure::on_all_ranks(Code::Launch, what)
        })
    }

    /// Calls kubectl with `words`, and `input` on its stdin.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl cannot be started, or does not answer in time.
    pub(super) fn call(&self, words: &[&str], input: &[u8]) -> anyhow::Result<Answer> {
        let timeout = format!("--request-timeout={}ms", self.request_timeout.as_millis());
        let mut all = words.to_vec();
        all.push(&timeout);
        self.call_within(
            self.request_timeout.saturating_mul(REQUESTS),
            &all,
            &[],
            input,
        )
    }

    /// Calls kubectl with `words`, the namespace, and `end_of_line`, which is for another program.
    fn call_within(
        &self,
        limit: Duration,
        words: &[&str],
        end_of_line: &[&str],
        input: &[u8],
    ) -> anyhow::Result<Answer> {
        let mut child = self.start(words, end_of_line)?;
        let stdout = child::read_all(child.stdout.take(), child::MOST_BYTES);
        let stderr = child::read_all(child.stderr.take(), MOST_WORDS);
        let stdin = child.stdin.take();
        let input = input.to_vec();
        thread::spawn(move || {
            // kubectl may end before it has read all; then it says why.
            let _ = stdin.map(|mut pipe| pipe.write_all(&input));
        });
        let status = wait(&mut child, words, limit)?;
        // What kubectl has started may outlive it and hold a pipe open.
        let rest = |from: mpsc::Receiver<Vec<u8>>| from.recv_timeout(GRACE).unwrap_or_default();
        Ok(Answer {
            is_ok: status.success(),
            stdout: rest(stdout),
            stderr: String::from_utf8_lossy(&rest(stderr)).trim().to_owned(),
        })
    }

    /// Returns the objects that `kubectl get` lists.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl refuses, or prints no list.
    pub(super) fn list(&self, words: &[&str]) -> anyhow::Result<Vec<Value>> {
        let answer = self.call(words, &[])?;
        if !answer.is_ok {
            return Err(refusal::failure(&answer.stderr));
        }
        answer.items()
    }

    /// Runs this program with `arguments` in a pod, and returns what it prints.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl refuses.
    pub(super) fn exec(&self, pod: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        let mut end_of_line = vec!["--", "pxnbench"];
        end_of_line.extend(arguments);
        self.files(&["exec", pod], &end_of_line)
    }

    /// Returns the last `lines` lines of the log of a pod.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl refuses.
    pub(super) fn end_of_log(&self, pod: &str, lines: u32) -> anyhow::Result<Vec<u8>> {
        self.files(&["logs", pod, &format!("--tail={lines}")], &[])
    }

    fn files(&self, words: &[&str], end_of_line: &[&str]) -> anyhow::Result<Vec<u8>> {
        let limit = self.request_timeout.saturating_mul(REQUESTS_FOR_FILES);
        let answer = self.call_within(limit, words, end_of_line, &[])?;
        if !answer.is_ok {
            return Err(refusal::failure(&answer.stderr));
        }
        Ok(answer.stdout)
    }

    /// Gives each line of the log of a pod to `take`, until the log ends, `take` says that it needs
    /// no more, or somebody asks to stop. A log that is not followed may be silent for a limited
    /// time only.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl refuses or is silent for too long, or if `take` fails.
    pub(super) fn log(&self, pod: &str, extent: LogExtent, take: Take) -> anyhow::Result<()> {
        let (option, limit) = match extent {
            LogExtent::Followed => ("--follow".to_owned(), None),
            LogExtent::SoFar => {
                let option = format!("--limit-bytes={}", child::MOST_BYTES);
                (
                    option,
                    Some(self.request_timeout.saturating_mul(REQUESTS_FOR_FILES)),
                )
            }
        };
        let words = ["logs", pod, &option];
        let mut child = self.start(&words, &[])?;
        drop(child.stdin.take());
        let stderr = child::read_all(child.stderr.take(), MOST_WORDS);
        let lines = child::read_lines(child.stdout.take());
        let passed_on = pass_on(&lines, &words, limit, take);
        if !matches!(passed_on, Ok(true)) {
            child::end(&mut child, GRACE)?;
            return passed_on.map(drop);
        }
        let status = wait(&mut child, &words, GRACE)?;
        if status.success() {
            return Ok(());
        }
        let said = stderr.recv_timeout(GRACE).unwrap_or_default();
        Err(refusal::failure(&String::from_utf8_lossy(&said)))
    }
}

/// The part of a log that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogExtent {
    /// What there is, up to [`child::MOST_BYTES`].
    SoFar,
    /// What there is and what is still to come.
    Followed,
}

/// What takes the lines of a log, and returns whether it needs more of them.
type Take<'a> = &'a mut dyn FnMut(&str) -> anyhow::Result<bool>;

/// Passes lines on, and returns whether they have ended.
///
/// # Errors
///
/// Returns an error if none comes within `limit`, if `take` fails, or if somebody asks to stop
/// before all lines came that a limit is for.
fn pass_on(
    lines: &mpsc::Receiver<Vec<u8>>,
    words: &[&str],
    limit: Option<Duration>,
    take: Take,
) -> anyhow::Result<bool> {
    let mut latest = Instant::now();
    loop {
        match (signal::received(), limit) {
            (Some(name), Some(_)) => return Err(stopped(name)),
            // This is how following ends.
            (Some(_), None) => return Ok(false),
            (None, _) => {}
        }
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                latest = Instant::now();
                if !take(&String::from_utf8_lossy(&line))? {
                    return Ok(false);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(true),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Some(limit) = limit.filter(|limit| latest.elapsed() > *limit) {
                    return Err(late(words, limit));
                }
            }
        }
    }
}

fn stopped(signal: &str) -> anyhow::Error {
    Failure::on_all_ranks(Code::Stopped, format!("stopped by {signal}"))
}

/// Returns the error for kubectl, called with `words`, that takes too long.
fn late(words: &[&str], limit: Duration) -> anyhow::Error {
    let what = format!(
        "kubectl {} has not ended within {} s. `kubectl cluster-info` shows whether the cluster \
         can be reached; --request-timeout sets how long it may take",
        words.first().unwrap_or(&""),
        limit.as_secs()
    );
    Failure::on_all_ranks(Code::TimedOut, what)
}

/// Waits until kubectl ends, which was called with `words`.
///
/// # Errors
///
/// Returns an error if it does not end within `limit`, or if somebody asks to stop.
fn wait(child: &mut Child, words: &[&str], limit: Duration) -> anyhow::Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(name) = signal::received() {
            child::end(child, GRACE)?;
            return Err(stopped(name));
        }
        if started.elapsed() > limit {
            child::end(child, GRACE)?;
            return Err(late(words, limit));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

impl Answer {
    /// Returns the objects of the list that was printed.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no object.
    pub(super) fn items(&self) -> anyhow::Result<Vec<Value>> {
        match self.object()?["items"].clone() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the object that was printed.
    ///
    /// # Errors
    ///
    /// Returns an error if it is none.
    pub(super) fn object(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.stdout).map_err(|error| {
            let what = format!(
                "kubectl printed something other than an object ({}). Check that {} is kubectl, \
                 and that the answer is smaller than {} MiB",
                why_no_json(&error),
                env::var("KUBECTL").unwrap_or_else(|| "kubectl".into()),
                child::MOST_BYTES >> 20
            );
            Failure::on_all_ranks(Code::Launch, what)
        })
    }
}
