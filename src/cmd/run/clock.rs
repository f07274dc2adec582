//! Where the time of a run goes.

use std::time::{Duration, Instant};

use crate::{facts, record, sweep::spent::PhaseTimes};

/// Where the time goes.
pub(super) struct PhaseTimer {
    last: Instant,
    pub(super) phases: Vec<record::Phase>,
}

impl PhaseTimer {
    /// Begins with the time that the process took to get here.
    pub(super) fn start() -> PhaseTimer {
        let now = Instant::now();
        let age = Duration::from_secs_f64(facts::process_age_s().unwrap_or(0.0).max(0.0));
        PhaseTimer {
            last: now.checked_sub(age).unwrap_or(now),
            phases: Vec::new(),
        }
    }

    /// What was done since the last mark is `name`.
    pub(super) fn mark(&mut self, name: &str) {
        let seconds = (self.last.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        self.phases.push(record::Phase {
            name: name.into(),
            seconds,
        });
        self.last = Instant::now();
    }

    /// As [`PhaseTimer::mark`], of what has parts of its own: each is a phase, and what is left is `name`.
    pub(super) fn mark_parts(&mut self, name: &str, parts: &PhaseTimes) {
        let known = parts.parts().filter(|(_, time)| !time.is_zero());
        for (part, time) in known {
            self.last += time;
            let seconds = (time.as_secs_f64() * 1e3).round() / 1e3;
            self.phases.push(record::Phase {
                name: format!("{name}: {part}"),
                seconds,
            });
        }
        self.mark(&format!("{name}: other"));
    }
}
