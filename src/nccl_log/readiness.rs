//! How far the processes of a log got.

use super::{facts::LogFacts, process::Process};

/// The progress of the processes of a log. One line that is missing proves no crash: tools leave
/// lines out, and a later line of the same process shows that it went on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    /// The number of processes that make a communicator.
    pub(super) processes: u64,
    /// Those that started more communicators than they completed, and show no sign of having gone
    /// on.
    pub(super) unfinished: u64,
    /// Whether processes started communicators, and none was ready for use.
    pub(super) is_never_ready: bool,
    /// Whether the log reports a segmentation fault.
    pub(super) has_fault: bool,
    /// Whether it reports that, or NCCL warns of something.
    pub(super) has_trouble: bool,
}

impl Readiness {
    /// Finds out how far the processes of `facts` got.
    pub(super) fn new(facts: &LogFacts) -> Readiness {
        let has_fault = facts.troubles.segmentation_faults > 0;
        let mut readiness = Readiness {
            processes: 0,
            unfinished: 0,
            is_never_ready: true,
            has_fault,
            has_trouble: has_fault || facts.troubles.warnings > 0,
        };
        for process in facts.attribution.processes() {
            let is_stuck = is_stuck(process, has_fault);
            readiness.processes += 1;
            readiness.unfinished += u64::from(is_stuck);
            readiness.is_never_ready &= is_stuck && !process.made_any();
        }
        readiness.is_never_ready &= readiness.processes > 0;
        readiness
    }
}

/// Returns whether a process did not get to the end of making a communicator. After a segmentation
/// fault, connections do not show that it did, because NCCL may make them before.
fn is_stuck(process: &Process, has_fault: bool) -> bool {
    process.lacks_completion() && (has_fault || !process.is_under_way())
}
