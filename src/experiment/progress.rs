//! What the user sees while an experiment runs.

use std::path::Path;

use super::step::{OUTPUT, StepEnd};
use crate::exit::Code;

/// Announces steps on stderr, unless it is quiet. Failures are always reported.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) quiet: bool,
    /// Blocks that are planned.
    pub(super) blocks: u32,
}

impl Progress {
    /// Reports how a step ended.
    pub(super) fn step(&self, name: &str, block: Option<u32>, folder: &Path, end: &StepEnd) {
        let position = match block {
            Some(block) => format!("block {} of {}", block + 1, self.blocks),
            None => "warm-up".to_owned(),
        };
        if end.code == Code::Fine {
            if !self.quiet {
                say!("pxnbench: {position}: {name}, {:.1} s", end.seconds);
            }
            return;
        }
        say!(
            "pxnbench: {position}: {name} ended with exit code {}: {}. Its output is in {}",
            end.code as u8,
            end.message.trim_end_matches('.'),
            folder.join(OUTPUT).display()
        );
    }
}
