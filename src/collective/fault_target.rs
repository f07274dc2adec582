//! [`FaultTarget`]: what a deliberate fault changes, to show that the check finds it.

use super::guard::{BufferSide, CaseBuffer};

/// The target of a deliberate fault, which changes it after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// The last checked element of the receive buffer.
    Data,
    /// The last element of the send buffer.
    Send,
    /// The byte beside a buffer.
    Beside(CaseBuffer, BufferSide),
}

impl FaultTarget {
    /// All of them, with the words that stand for them.
    pub const NAMES: [(&'static str, FaultTarget); 6] = [
        ("data", FaultTarget::Data),
        ("send", FaultTarget::Send),
        (
            "before",
            FaultTarget::Beside(CaseBuffer::Receive, BufferSide::Before),
        ),
        (
            "after",
            FaultTarget::Beside(CaseBuffer::Receive, BufferSide::After),
        ),
        (
            "before-send",
            FaultTarget::Beside(CaseBuffer::Send, BufferSide::Before),
        ),
        (
            "after-send",
            FaultTarget::Beside(CaseBuffer::Send, BufferSide::After),
        ),
    ];
}
