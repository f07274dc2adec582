//! [`ReplayParts`]: what `replay.json` says of the parts of a step's communication.

use serde::Deserialize;

use super::table::figure;
use crate::units::counted;

/// Collectives and copies of a step.
#[derive(Deserialize)]
pub(super) struct ReplayParts {
    collectives: ReplayPart,
    copies: ReplayPart,
}

#[derive(Deserialize)]
struct ReplayPart {
    count: u64,
    bytes: u64,
    alone_us: Option<f64>,
    in_step_us: Option<f64>,
}

impl ReplayParts {
    /// Returns what is to be said of copies; `None` if the step has none.
    pub(super) fn sentence(&self) -> Option<String> {
        let ReplayParts {
            collectives,
            copies,
        } = self;
        if copies.count == 0 {
            return None;
        }
        Some(format!(
            "The communication has {} of {} MB within memory: they take {}. The collectives take \
             {}.",
            counted(copies.count, "copy"),
            figure(Some(copies.bytes as f64 / 1e6)),
            copies.times(),
            collectives.times(),
        ))
    }
}

impl ReplayPart {
    fn times(&self) -> String {
        let time = |time: Option<f64>| match time {
            Some(time) => format!("{} ms", figure(Some(time / 1e3))),
            None => "an unknown time".to_owned(),
        };
        format!(
            "{} alone and {} in the step",
            time(self.alone_us),
            time(self.in_step_us)
        )
    }
}
