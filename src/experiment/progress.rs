//! [`Progress`]: the messages while an experiment runs.

use std::path::Path;

use super::step::{OUTPUT, StepEnd};
use crate::exit::Code;

/// Reports the steps on stderr. If it is quiet, it reports failures only.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) quiet: bool,
    /// The number of blocks that are planned.
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
