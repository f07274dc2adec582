//! The progress of the sweep on stderr: a bar if it is a terminal, otherwise a line now and then.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::collective::Case;

/// The time between two lines if there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of a sweep.
pub struct Progress {
    bar: ProgressBar,
    /// When the last line was written; `None` if there is a bar.
    last_line: Option<Instant>,
}

impl Progress {
    /// Starts the progress over `cases` cases; 0 if there is no end.
    pub fn new(cases: usize) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let length = (cases > 0).then_some(cases as u64);
        let template = match length {
            Some(_) => "{bar:24} {pos}/{len} {elapsed} (about {eta} left) {msg}",
            None => "{pos} {elapsed} {msg}",
        };
        let bar = ProgressBar::with_draw_target(length, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            bar,
            last_line: (!is_terminal).then(Instant::now),
        }
    }

    /// Shows that a case begins.
    pub fn start(&mut self, case: &Case) {
        match &mut self.last_line {
            None => self.bar.set_message(case.to_string()),
            Some(last) if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                let done = self.bar.position();
                let seconds = self.bar.elapsed().as_secs_f64();
                let of_all = match self.bar.length() {
                    Some(all) => format!(" of {all}"),
                    None => String::new(),
                };
                say!("pxnbench: {done}{of_all} cases after {seconds:.0} s; next {case}");
            }
            Some(_) => {}
        }
    }

    /// Counts a case that ended.
    pub fn finish(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar off the screen while `write` writes.
    pub fn pause<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
