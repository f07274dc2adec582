//! [`EndPrinting`]: the last messages of a process, which nobody may read.

use std::{
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use crate::{streams, visible::visible_line};

/// How long printing the reason may take.
pub(super) const PRINTING: Duration = Duration::from_secs(1);

/// Messages that a thread prints.
pub(super) struct EndPrinting {
    began: Instant,
    /// It is disconnected once they are printed, or given up.
    end: Receiver<()>,
}

impl EndPrinting {
    /// Begins to print lines, without their ends.
    pub(super) fn start(messages: &[String]) -> EndPrinting {
        let began = Instant::now();
        let (sender, end) = mpsc::channel();
        let lines = messages.iter().map(|line| visible_line(line) + "\n");
        let shown: String = lines.collect();
        let print = move |shown: &str| {
            let _ = streams::to_stderr_within(shown, PRINTING);
            drop(sender);
        };
        let text = shown.clone();
        let started = thread::Builder::new().spawn(move || print(&text));
        if started.is_err() {
            let _ = streams::to_stderr_within(&shown, PRINTING);
        }
        EndPrinting { began, end }
    }

    /// Waits for the messages to be printed, no longer than `limit` after it was begun.
    pub(super) fn wait(&self, limit: Duration) {
        // Nothing is ever sent.
        let _ = self
            .end
            .recv_timeout(limit.saturating_sub(self.began.elapsed()));
    }
}
