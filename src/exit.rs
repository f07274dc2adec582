//! Every exit code of the program, and the error that carries one.
//!
//! 2 to 7 mean what they mean in nccl-tests. Some launchers replace the code of an aborted job by their own; the file
//! `run.json` keeps ours.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Code {
    /// Everything asked for was done, and no element was wrong.
    Fine = 0,
    /// A bug of this program or a fault of the operating system.
    Internal = 1,
    /// A CUDA call failed, or the driver does not work.
    Cuda = 2,
    /// An NCCL call failed, or libnccl is missing.
    Nccl = 3,
    /// Something did not end within its deadline.
    TimedOut = 4,
    /// Nothing could run: everything was waived, or there are too few GPUs.
    NothingRan = 5,
    /// The command line asks for something that does not exist or cannot be.
    Usage = 6,
    /// Data arrived wrong, busbw is below the threshold, or a verdict is not the one asked for.
    WrongData = 7,
    /// The launch or MPI is broken.
    Launch = 8,
    /// A signal stopped the run; what was measured is kept.
    Stopped = 9,
    /// A check of `pxnbench doctor` failed.
    NotReady = 10,
}

/// The codes that are in use, with the line that `--help` and docs/FORMAT.md print for each.
pub const CODES: [(Code, &str); 11] = [
    (Code::Fine, "fine"),
    (Code::Internal, "internal error"),
    (Code::Cuda, "CUDA failed"),
    (Code::Nccl, "NCCL failed"),
    (Code::TimedOut, "timed out or hung"),
    (
        Code::NothingRan,
        "nothing could run (all waived, too few GPUs)",
    ),
    (Code::Usage, "usage"),
    (
        Code::WrongData,
        "wrong data, mean busbw below nine tenths of NCCL_TESTS_MIN_BW, or a verdict other than the one asked for",
    ),
    (Code::Launch, "launch or MPI"),
    (Code::Stopped, "stopped by a signal, results kept"),
    (Code::NotReady, "doctor: not ready"),
];

impl Code {
    /// The code of this number.
    pub fn of(number: i32) -> Option<Code> {
        CODES
            .iter()
            .map(|(code, _)| *code)
            .find(|code| *code as i32 == number)
    }
}

/// An error with its exit code: one sentence that says what, which value, and what to do.
///
/// Which of the two constructors: [`Failure::on_all_ranks`] only where every rank is sure to have the same error at the same
/// place, because it follows from arguments, from gathered facts, or from `world::agree`; then the ranks end together.
/// Everything else is [`Failure::on_this_rank`]: the others know nothing of it and may be waiting, so the job is aborted.
#[derive(Debug)]
pub struct Failure {
    /// The code the program ends with.
    pub code: Code,
    /// The sentence.
    pub what: String,
    /// Does every rank know of it? Then they end together and one prints it; otherwise the rank that failed ends the job.
    pub everywhere: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// An error of this rank that ends the job with `code`.
    pub fn on_this_rank(code: Code, what: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Failure {
            code,
            what: what.into(),
            everywhere: false,
        })
    }

    /// An error that every rank has: all of them return it.
    pub fn on_all_ranks(code: Code, what: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Failure {
            code,
            what: what.into(),
            everywhere: true,
        })
    }
}

/// The exit code of `error`: that of the [`Failure`] in its chain, else [`Code::Internal`].
pub fn code_of(error: &anyhow::Error) -> Code {
    error
        .chain()
        .find_map(|e| e.downcast_ref::<Failure>())
        .map_or(Code::Internal, |f| f.code)
}

/// Does every rank know of `error`?
pub fn is_everywhere(error: &anyhow::Error) -> bool {
    error
        .chain()
        .find_map(|e| e.downcast_ref::<Failure>())
        .is_some_and(|f| f.everywhere)
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
            assert_eq!(Code::of(at as i32), Some(*code));
        }
        assert_eq!(Code::of(137), None);
    }
}
