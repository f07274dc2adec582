//! How far the sweep is, on stderr: a bar where it is a terminal, else a line every so often.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::collective::Case;

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Progress of a sweep.
pub struct Progress {
    bar: ProgressBar,
    /// When the last line was written; `None` where the bar shows it.
    last_line: Option<Instant>,
}

impl Progress {
    /// Progress over `cases` cases; 0 where there is no end.
    pub fn new(cases: usize) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let (length, template) = match cases {
            0 => (None, "{pos} {elapsed} {msg}"),
            cases => (
                Some(cases as u64),
                "{bar:24} {pos}/{len} {elapsed} (about {eta} left) {msg}",
            ),
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

    /// A case begins.
    pub fn start(&mut self, case: &Case) {
        match &mut self.last_line {
            None => self.bar.set_message(case.to_string()),
            Some(last) if last.elapsed() >= EVERY => {
                *last = Instant::now();
                let all = self
                    .bar
                    .length()
                    .map_or_else(String::new, |all| format!(" of {all}"));
                let done = self.bar.position();
                say!(
                    "pxnbench: {done}{all} cases after {:.0} s; next {case}",
                    self.bar.elapsed().as_secs_f64()
                );
            }
            Some(_) => {}
        }
    }

    /// A case ended.
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
