//! [`SystemLogs`]: where the system says why a process ended. A run reads them (`run::node_logs`);
//! layers below it only ask.

use std::sync::OnceLock;

use crate::exit::Code;

/// What the system logs say of a process that has died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossCause {
    /// Whether they prove that the process was killed.
    pub is_killed: bool,
    /// What they say, or why they say nothing, as a clause.
    pub clause: String,
}

/// The logs and counters of the system of this node.
pub trait SystemLogs: Send + Sync {
    /// Returns what they say of process `pid`, which has died.
    fn on_lost_process(&self, pid: u32) -> LossCause;

    /// Returns what they say of a failure of this process with `code`, if anything.
    fn on_own_failure(&self, code: Code) -> Option<String>;
}

static LOGS: OnceLock<Box<dyn SystemLogs>> = OnceLock::new();

/// Sets the logs to ask; the first call counts.
pub fn set_system_logs(logs: impl SystemLogs + 'static) {
    // A process has one job.
    let _ = LOGS.set(Box::new(logs));
}

pub(super) fn on_lost_process(pid: u32) -> LossCause {
    match LOGS.get() {
        Some(logs) => logs.on_lost_process(pid),
        None => LossCause {
            is_killed: false,
            clause: "look at the kernel log of that node".into(),
        },
    }
}

pub(super) fn on_own_failure(code: Code) -> Option<String> {
    LOGS.get()?.on_own_failure(code)
}
