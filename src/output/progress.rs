//! The progress of the sweep: a bar if a terminal can be reached, lines now and then if that is not
//! known, and nothing in files and in the logs of batch jobs.

use std::{
    thread,
    time::{Duration, Instant},
};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::{self, ProgressTarget};
use crate::{collective::Case, env::Env};

/// The time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// How often a bar is drawn, in times per second.
const DRAWS_PER_SECOND: u8 = 10;

/// The time after which a bar is drawn beside the launcher, so that a short sweep needs none.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// The time in which the launcher hands on a row. Until then the bar must not be drawn again: the
/// row would come behind it.
const ROW_DELAY: Duration = Duration::from_millis(30);

/// The progress of a sweep.
pub struct Progress {
    bar: ProgressBar,
    style: Style,
    /// The throughput of the last second, with a separator behind it; empty unless there is one.
    sample: String,
}

/// How progress is shown.
enum Style {
    /// Not at all.
    Hidden,
    /// As a bar on stderr.
    Bar,
    /// As a bar on the launcher's terminal; `Some` until it is drawn for the first time.
    LauncherBar(Option<Term>),
    /// As lines, the last of which was written then.
    Lines(Instant),
}

impl Progress {
    /// Returns progress that is not shown.
    pub fn hidden() -> Progress {
        Progress {
            bar: ProgressBar::hidden(),
            style: Style::Hidden,
            sample: String::new(),
        }
    }

    /// Starts the progress over `cases` cases; 0 if there is no end.
    pub fn new(cases: usize, env: Env) -> Progress {
        let (target, style) = match terminal::progress_target(env) {
            ProgressTarget::Stderr => (ProgressDrawTarget::stderr(), Style::Bar),
            other => (ProgressDrawTarget::hidden(), without_stderr(other)),
        };
        let length = (cases > 0).then_some(cases as u64);
        let template = match length {
            Some(_) => "{bar:24} {pos}/{len} {elapsed} (about {eta} left) {msg}",
            None => "{pos} {elapsed} {prefix}{msg}",
        };
        let bar = ProgressBar::with_draw_target(length, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            bar,
            style,
            sample: String::new(),
        }
    }

    /// Shows that a case begins.
    pub fn start(&mut self, case: &Case) {
        match &mut self.style {
            Style::Hidden => {}
            Style::Bar => self.bar.set_message(case.to_string()),
            Style::LauncherBar(waiting) => {
                if self.bar.elapsed() >= BAR_DELAY
                    && let Some(terminal) = waiting.take()
                {
                    let target = ProgressDrawTarget::term(terminal, DRAWS_PER_SECOND);
                    self.bar.set_draw_target(target);
                }
                self.bar.set_message(case.to_string());
            }
            Style::Lines(last) if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                let done = self.bar.position();
                let seconds = self.bar.elapsed().as_secs_f64();
                let of_all = match self.bar.length() {
                    Some(all) => format!(" of {all}"),
                    None => String::new(),
                };
                say!(
                    "pxnbench: {done}{of_all} cases after {seconds:.0} s; {}next {case}",
                    self.sample
                );
            }
            Style::Lines(_) => {}
        }
    }

    /// Shows the throughput of the last second from now on.
    pub fn set_sample(&mut self, sample: &str) {
        self.sample = format!("{sample}; ");
        self.bar.set_prefix(self.sample.clone());
    }

    /// Counts a case that ended.
    pub fn finish(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar off the screen while `write` writes.
    pub fn pause<T>(&self, write: impl FnOnce() -> T) -> T {
        let is_beside_launcher = matches!(self.style, Style::LauncherBar(None));
        self.bar.suspend(|| {
            let written = write();
            if is_beside_launcher {
                thread::sleep(ROW_DELAY);
            }
            written
        })
    }
}

/// Returns how progress is shown if stderr is no terminal.
fn without_stderr(target: ProgressTarget) -> Style {
    match target {
        ProgressTarget::Launcher(path) => match terminal::open(&path) {
            Ok(terminal) => Style::LauncherBar(Some(terminal)),
            Err(_) => Style::Lines(Instant::now()),
        },
        ProgressTarget::Lines => Style::Lines(Instant::now()),
        ProgressTarget::Nowhere | ProgressTarget::Stderr => Style::Hidden,
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
