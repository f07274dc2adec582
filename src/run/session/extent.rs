//! [`SweepExtent`]: how far a sweep is.

use std::fmt;

use crate::units::counted;

/// How many cases of a sweep are done.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct SweepExtent {
    done: u64,
    /// All cases; `None` if the sweep repeats without end.
    all: Option<u64>,
}

impl SweepExtent {
    /// Returns the extent of a sweep of `cases` cases that begins; 0 if it has no end.
    pub(super) fn begin(cases: u64) -> SweepExtent {
        SweepExtent {
            done: 0,
            all: (cases > 0).then_some(cases),
        }
    }

    /// Counts one more case that is done.
    pub(super) fn count(&mut self) {
        self.done += 1;
    }
}

impl fmt::Display for SweepExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.all {
            Some(all) => write!(f, "{} of {}", self.done, counted(all, "case")),
            None => f.write_str(&counted(self.done, "case")),
        }
    }
}
