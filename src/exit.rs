//! The exit codes of the program, and the error that carries one. [`CODES`] lists them for `--help`
//! and docs/FORMAT.md.
//!
//! 2 to 7 mean the same as in nccl-tests. Some launchers replace the code of an aborted job with
//! their own; `run.json` keeps the original.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize};

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Code {
    /// Everything requested was done, and all data were correct.
    Fine = 0,
    /// This program has a bug, or the operating system failed.
    Internal = 1,
    /// A CUDA call failed, or the driver does not work.
    Cuda = 2,
    /// An NCCL call failed, or libnccl is missing.
    Nccl = 3,
    /// Something did not finish within its deadline.
    TimedOut = 4,
    /// Nothing could run or be judged: everything was waived, or there are too few GPUs.
    NothingRan = 5,
    /// The command line asks for something that does not exist or is impossible.
    Usage = 6,
    /// Data were corrupted, a requirement is missed, or a verdict is not the expected one.
    WrongData = 7,
    /// The launch or MPI is broken.
    Launch = 8,
    /// A signal stopped it; what a run had measured until then is kept.
    Stopped = 9,
    /// A check of `pxnbench doctor` failed.
    NotReady = 10,
    /// A file lacks some of what was measured, or standard output cannot be written.
    Disk = 11,
}

/// All codes, with the meaning that `--help` and docs/FORMAT.md print.
pub const CODES: [(Code, &str); 12] = [
    (Code::Fine, "fine"),
    (Code::Internal, "internal error"),
    (Code::Cuda, "CUDA failed"),
    (Code::Nccl, "NCCL failed"),
    (Code::TimedOut, "timed out or hung"),
    (
        Code::NothingRan,
        "nothing could run or be judged (all waived, too few GPUs, too little memory, unknown \
         peak)",
    ),
    (Code::Usage, "usage error"),
    (
        Code::WrongData,
        "wrong data, a missed requirement such as --min-busbw, mean busbw below nine tenths of \
         NCCL_TESTS_MIN_BW, or a verdict other than the expected one",
    ),
    (Code::Launch, "launch or MPI failed"),
    (
        Code::Stopped,
        "stopped by a signal; what was measured until then is kept",
    ),
    (Code::NotReady, "doctor: not ready"),
    (
        Code::Disk,
        "not all results could be written, or nothing to standard output: disk full, read-only or \
         gone",
    ),
];

impl Code {
    /// Returns the code with this number.
    pub fn from_number(number: i32) -> Option<Code> {
        let mut codes = CODES.iter().map(|(code, _)| *code);
        codes.find(|code| *code as i32 == number)
    }
}

/// An error with its exit code: one sentence with the cause, the value, and the remedy.
///
/// Use [`Failure::on_all_ranks`] only if every rank is certain to have the same error in the same
/// place, because it follows from arguments, from gathered facts, or from `world::agree`; the ranks
/// then end together. Use [`Failure::on_this_rank`] for all other errors: the other ranks do not
/// know of it and may be waiting, so the job is aborted.
#[derive(Debug)]
pub struct Failure {
    /// The exit code of the program.
    pub code: Code,
    /// The sentence.
    pub what: String,
    /// Whether every rank has the error. If so, they end together and one prints it; if not, the
    /// failed rank aborts the job.
    pub everywhere: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Creates an error of this rank, which aborts the job with `code`.
    pub fn on_this_rank(code: Code, what: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Failure {
            code,
            what: what.into(),
            everywhere: false,
        })
    }

    /// Creates the error, which every rank has, of a file that cannot be `what`, such as read or
    /// written.
    pub fn of_file(what: &str, path: &Path, why: &dyn fmt::Display) -> anyhow::Error {
        let sentence = format!("{} cannot be {what}: {why}", path.display());
        Failure::on_all_ranks(Code::Usage, sentence)
    }

    /// Creates an error that every rank has: all of them return it.
    pub fn on_all_ranks(code: Code, what: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Failure {
            code,
            what: what.into(),
            everywhere: true,
        })
    }
}

/// Returns the exit code of `error`: that of the [`Failure`] in its chain, else [`Code::Internal`].
pub fn code_of(error: &anyhow::Error) -> Code {
    find_failure(error).map_or(Code::Internal, |failure| failure.code)
}

/// Returns whether every rank has `error`.
pub fn is_everywhere(error: &anyhow::Error) -> bool {
    find_failure(error).is_some_and(|failure| failure.everywhere)
}

fn find_failure(error: &anyhow::Error) -> Option<&Failure> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_code_survives_context() {
        let error = Err::<(), _>(Failure::on_this_rank(Code::Nccl, "x"))
            .context("while y")
            .expect_err("an error");
        assert_eq!(code_of(&error), Code::Nccl);
        assert_eq!(code_of(&anyhow::anyhow!("other")), Code::Internal);
    }

    #[test]
    fn the_table_lists_each_code_at_its_number() {
        for (at, (code, _)) in CODES.iter().enumerate() {
            assert_eq!(*code as usize, at);
            assert_eq!(Code::from_number(at as i32), Some(*code));
        }
        assert_eq!(Code::from_number(137), None);
    }
}
