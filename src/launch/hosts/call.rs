//! A check on one host: `pxnbench probe` over ssh, until it reports or the time is over.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::judge::Answer;
use crate::{
    launch::probe,
    world::{child, signal},
};

/// The time within which a host has to report.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a check may take to end once nobody needs it any more.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a wait looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// What is kept of the messages of a host.
const MOST_BYTES: u64 = 64 << 10;

/// A check that runs.
pub(super) struct Call {
    child: Child,
    /// Lines.
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    started: Instant,
}

impl Call {
    /// Starts `words`, in a process group of its own: a signal from the terminal is for this
    /// process.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub(super) fn start(words: &[String]) -> io::Result<Call> {
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let stdout = child::read_lines(child.stdout.take());
        let stderr = child::read_all(child.stderr.take(), MOST_BYTES);
        Ok(Call {
            child,
            stdout,
            stderr,
            started: Instant::now(),
        })
    }

    /// Waits for the report, the end or the limit. The program may go on after its report.
    ///
    /// # Errors
    /// Returns an error if the system refuses to wait.
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        loop {
            match self.stdout.recv_timeout(LOOK) {
                Ok(line) => {
                    let line = String::from_utf8_lossy(&line);
                    if let Some(report) = probe::reports(&line).pop() {
                        return Ok(Answer {
                            report: Some(report),
                            ..Answer::default()
                        });
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.is_over() {
                return Ok(self.late());
            }
        }
        self.end_of_program()
    }

    /// Waits for the program, which prints no more.
    fn end_of_program(&mut self) -> io::Result<Answer> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                let stderr = self.stderr.recv_timeout(PATIENCE).unwrap_or_default();
                return Ok(Answer {
                    code: status.code(),
                    stderr: String::from_utf8_lossy(&stderr).into_owned(),
                    ..Answer::default()
                });
            }
            if self.is_over() {
                return Ok(self.late());
            }
            thread::sleep(LOOK);
        }
    }

    fn is_over(&self) -> bool {
        self.started.elapsed() > LIMIT || signal::received().is_some()
    }

    fn late(&self) -> Answer {
        Answer {
            late: Some(LIMIT.as_secs()),
            ..Answer::default()
        }
    }
}

impl Drop for Call {
    /// Ends the program: by the end of its input, otherwise by force.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let asked = Instant::now();
        let patience = match self.is_over() {
            true => Duration::ZERO,
            false => PATIENCE,
        };
        while let Ok(None) = self.child.try_wait() {
            if asked.elapsed() > patience {
                signal::kill_group(self.child.id());
                // It is killed, or cannot be.
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
