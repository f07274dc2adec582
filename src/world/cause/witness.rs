//! What the system can tell of the end of a process: asked by this module, answered by what reads the system's files.

use std::sync::OnceLock;

use crate::exit::Code;

/// What the system tells of a process that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// Whether it proves that the process was killed.
    pub is_killed: bool,
    /// What it tells, or why it tells nothing, as a clause.
    pub clause: String,
}

/// A source of such knowledge.
pub trait SystemWitness: Send + Sync {
    /// Returns what the system tells of process `pid`, which is gone.
    fn on_lost_process(&self, pid: u32) -> Testimony;

    /// Returns what the system tells of a failure with `code` of this process itself, if anything.
    fn on_own_failure(&self, code: Code) -> Option<String>;
}

static WITNESS: OnceLock<Box<dyn SystemWitness>> = OnceLock::new();

/// Sets the source; the first one stays.
pub fn set_witness(witness: impl SystemWitness + 'static) {
    // A process has one job.
    let _ = WITNESS.set(Box::new(witness));
}

pub(super) fn on_lost_process(pid: u32) -> Testimony {
    match WITNESS.get() {
        Some(witness) => witness.on_lost_process(pid),
        None => Testimony {
            is_killed: false,
            clause: "look at the kernel log of that node".into(),
        },
    }
}

pub(super) fn on_own_failure(code: Code) -> Option<String> {
    WITNESS.get()?.on_own_failure(code)
}
