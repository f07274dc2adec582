//! [`Failure`]: an error with NCCL's code and a sentence.

use std::fmt;

/// A result code of NCCL that stands for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// `ncclUnhandledCudaError`
    Cuda = 1,
    /// `ncclSystemError`
    System = 2,
    /// `ncclInternalError`
    Internal = 3,
    /// `ncclInvalidUsage`
    Usage = 5,
    /// `ncclRemoteError`
    Remote = 6,
}

/// An error: a code for NCCL, and a sentence for its log.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(code: Code, sentence: impl Into<String>) -> Failure {
        Failure {
            code,
            sentence: sentence.into(),
        }
    }

    /// Returns the error of a call of the operating system. `doing` is what failed, as the
    /// beginning of a sentence.
    pub(crate) fn system(doing: &str, error: impl fmt::Display) -> Failure {
        Failure::new(Code::System, format!("{doing} failed: {error}."))
    }

    /// Returns the error of a call that NCCL would not make.
    pub(crate) fn internal(sentence: impl Into<String>) -> Failure {
        Failure::new(Code::Internal, sentence)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;
