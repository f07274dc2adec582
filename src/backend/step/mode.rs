//! [`StepMode`]: which operations of a step run.

use crate::workload::StepWork;

/// Which operations of a step run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepMode {
    /// Computation alone, in its streams. Collectives and copies are left out.
    Computation,
    /// Collectives and copies alone, in their streams. Computation is left out.
    Communication,
    /// Everything, one operation after another.
    Serial,
    /// Everything, in its streams, each operation as soon as those that it waits for have ended.
    Overlapped,
}

impl StepMode {
    /// All modes.
    pub const ALL: [StepMode; 4] = [
        StepMode::Computation,
        StepMode::Communication,
        StepMode::Serial,
        StepMode::Overlapped,
    ];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            StepMode::Computation => "computation",
            StepMode::Communication => "communication",
            StepMode::Serial => "serial",
            StepMode::Overlapped => "overlapped",
        }
    }

    /// Returns what it leaves out or changes, as tables say it.
    pub fn note(self) -> &'static str {
        match self {
            StepMode::Computation => "computation alone",
            StepMode::Communication => "collectives and copies alone, in their streams",
            StepMode::Serial => "one operation after another",
            StepMode::Overlapped => "as in training",
        }
    }

    /// Returns whether operations that do `work` run.
    pub fn runs(self, work: &StepWork) -> bool {
        match work {
            StepWork::Compute(_) => self != StepMode::Communication,
            StepWork::Copies(_) | StepWork::Collective { .. } => self != StepMode::Computation,
        }
    }
}
