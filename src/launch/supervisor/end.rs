//! How processes ended, and which of them failed first.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use crate::exit::Code;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::launch) enum HowItEnded {
    /// By itself, with this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// Not at all, although it was killed.
    Remains,
}

impl From<ExitStatus> for HowItEnded {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => HowItEnded::Exit(code),
            (None, Some(signal)) => HowItEnded::Signal(signal),
            (None, None) => HowItEnded::Exit(Code::Internal as i32),
        }
    }
}

/// The end of one of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::launch) struct ProcessEnd {
    /// Its number, as in its `ProcessCommand`.
    pub(in crate::launch) number: u32,
    pub(in crate::launch) how: HowItEnded,
    /// Whether it had been asked to end before.
    pub(in crate::launch) was_asked: bool,
}

impl ProcessEnd {
    pub(in crate::launch) fn failed(&self) -> bool {
        self.how != HowItEnded::Exit(Code::Fine as i32)
    }

    /// Returns its exit code, if that is one of this program.
    pub(in crate::launch) fn code(&self) -> Option<Code> {
        match self.how {
            HowItEnded::Exit(number) => Code::from_number(number),
            HowItEnded::Signal(_) | HowItEnded::Remains => None,
        }
    }
}

/// Returns the process that failed first of `ends`, which are in the order in which they came. One
/// that was ended after another counts only if there is no other. One that a signal ended comes
/// first: the kernel closes its connections before it reports the end, so that processes which only
/// lost it can end earlier.
pub(in crate::launch) fn first_failure(ends: &[ProcessEnd]) -> Option<&ProcessEnd> {
    let failed = || ends.iter().filter(|end| end.failed());
    let by_itself = || failed().filter(|end| !end.was_asked);
    let by_signal = by_itself().find(|end| matches!(end.how, HowItEnded::Signal(_)));
    by_signal
        .or_else(|| by_itself().next())
        .or_else(|| failed().next())
}

/// Returns the first exit code of this program among the failures.
pub(in crate::launch) fn own_code(ends: &[ProcessEnd]) -> Option<Code> {
    let failed = ends.iter().filter(|end| end.failed());
    failed.filter_map(ProcessEnd::code).next()
}
