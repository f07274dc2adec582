//! The phases of a run, and the time that each takes.

use std::time::{Duration, Instant};

use crate::{facts, record::Phase, sweep::spent::PhaseTimes};

/// A timer that is marked at the end of each phase.
pub(super) struct PhaseTimer {
    last_mark: Instant,
    pub(super) phases: Vec<Phase>,
}

impl PhaseTimer {
    /// Starts at the moment when the process started.
    pub(super) fn start() -> PhaseTimer {
        let now = Instant::now();
        let age = facts::process_age_s().unwrap_or(0.0).max(0.0);
        let process_start = now.checked_sub(Duration::from_secs_f64(age));
        PhaseTimer {
            last_mark: process_start.unwrap_or(now),
            phases: Vec::new(),
        }
    }

    /// Gives the time since the last mark to the phase `name`.
    pub(super) fn mark(&mut self, name: &str) {
        self.add(name.into(), self.last_mark.elapsed());
        self.last_mark = Instant::now();
    }

    /// Gives the time since the last mark to the phases of `parts`, and what is left to
    /// `name: other`.
    pub(super) fn mark_parts(&mut self, name: &str, parts: &PhaseTimes) {
        for (part, time) in parts.parts() {
            if !time.is_zero() {
                self.last_mark += time;
                self.add(format!("{name}: {part}"), time);
            }
        }
        self.mark(&format!("{name}: other"));
    }

    fn add(&mut self, name: String, time: Duration) {
        let seconds = (time.as_secs_f64() * 1e3).round() / 1e3;
        self.phases.push(Phase { name, seconds });
    }
}
