//! A process in a group of its own, and how signals reach it.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::world::signal;

/// The way in which signals reach a process.
pub(in crate::launch) enum Signals {
    /// As signals.
    Direct,
    /// As lines of its standard input with their names, after this first line: ssh passes no
    /// signals on. It is asked to end in the same way, and the end of its input tells it that this
    /// process is gone.
    ByLine(String),
}

/// A process to be started.
pub(in crate::launch) struct ProcessCommand {
    /// What it is known by, such as its rank.
    pub(in crate::launch) number: u32,
    pub(in crate::launch) command: Command,
    pub(in crate::launch) signals: Signals,
}

/// A process that was started.
pub(super) struct Process {
    pub(super) number: u32,
    pub(super) child: Child,
    /// Its standard input, if signals reach it by name.
    pub(super) lines: Option<ChildStdin>,
    pub(super) has_ended: bool,
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(super) fn start(start: ProcessCommand) -> io::Result<Process> {
        let ProcessCommand {
            number,
            mut command,
            signals,
        } = start;
        signal::end_with_this_process(&mut command);
        command.process_group(0);
        if matches!(signals, Signals::ByLine(_)) {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn()?;
        let pid = child.id();
        let mut lines = None;
        match signals {
            Signals::Direct => signal::relay_also_to(pid),
            Signals::ByLine(_) => lines = child.stdin.take(),
        }
        let mut process = Process {
            number,
            child,
            lines,
            has_ended: false,
        };
        if let Signals::ByLine(first) = signals {
            process.tell(&first);
        }
        Ok(process)
    }

    /// Asks the process to end.
    pub(super) fn ask(&mut self) {
        match &self.lines {
            None => signal::terminate(self.child.id()),
            Some(_) => self.tell("SIGTERM"),
        }
    }

    /// Writes the name of a signal.
    pub(super) fn tell(&mut self, signal: &str) {
        if let Some(lines) = &mut self.lines {
            // If it no longer reads, it is ending.
            let _ = writeln!(lines, "{signal}").and_then(|()| lines.flush());
        }
    }
}
