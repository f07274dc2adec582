//! The way out of a job that cannot end in good order: last words, one sentence, `MPI_Abort`.

#![expect(
    unsafe_code,
    reason = "_exit is the only exit that runs no exit handler of MPI or CUDA, which can hang"
)]

use std::{
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{placement, scratch};
use crate::exit::Code;

/// What to save before the job ends, with the code it ends with and the sentence that says why.
type LastWords = Box<dyn FnMut(Code, &str, Moment) + Send>;

/// When last words are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The job may still end in good order.
    Warned,
    /// The job ends now.
    End,
}

static LAST_WORDS: Mutex<Option<LastWords>> = Mutex::new(None);
static RANK: OnceLock<u32> = OnceLock::new();
/// Has this process several ranks of a communicator, so that its own number is not theirs?
static HAS_SEVERAL: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);
/// Ends every rank of the job, once MPI starts.
static ABORTER: OnceLock<fn(i32)> = OnceLock::new();
/// The exit code, once all is measured and saved.
static SETTLED: OnceLock<Code> = OnceLock::new();

/// `MPI_Abort` kills the others within a second or two; where it hangs, this process still ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// Names this process in messages, once it is known.
pub fn set_rank(rank: u32) {
    // A second call keeps the first rank, which cannot change.
    let _ = RANK.set(rank);
}

/// Says that each process of the job has several ranks of NCCL's: messages then call it a process.
pub fn set_several() {
    HAS_SEVERAL.store(true, Ordering::SeqCst);
}

/// The rank of this process, once it is known.
pub fn rank() -> Option<u32> {
    RANK.get().copied()
}

/// Registers the function that ends every rank of the job with an exit code; it may return if it cannot.
pub fn set_aborter(aborter: fn(i32)) {
    // A process starts MPI once.
    let _ = ABORTER.set(aborter);
}

/// Sets what is to be saved when the job is ended from here.
pub fn set_last_words(words: LastWords) {
    *LAST_WORDS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(words);
}

/// All is measured and saved, and the program will end with `code`. A launcher that sees one rank end with an error stops
/// the others: from here on that is no news.
pub fn settle(code: Code) {
    // The first code stays.
    let _ = SETTLED.set(code);
}

/// Saves what there is as if the job ended now with `code`. Returns whether it could.
fn save(code: Code, sentence: &str, moment: Moment) -> bool {
    // The thread that holds the lock may be the one that hangs: no words are better than no end.
    let Ok(mut words) = LAST_WORDS.try_lock() else {
        return false;
    };
    if let Some(words) = words.as_mut() {
        words(code, sentence, moment);
    }
    true
}

/// A signal asks to stop. What there is is saved at once: srun may kill within half a second. An end in good order writes
/// it again.
pub fn save_before_stop(sentence: &str) {
    if SETTLED.get().is_none() {
        save(Code::Stopped, sentence, Moment::Warned);
    }
}

/// Ends the job because of a signal, or this process alone, silently, where all was settled before.
pub fn by_signal(sentence: &str) -> ! {
    match SETTLED.get() {
        Some(code) => {
            scratch::remove();
            exit_now(*code)
        }
        None => job(Code::Stopped, sentence),
    }
}

/// `rank 3 on node7`, `process 3 on node7`, or the host alone before the rank is known.
pub fn who() -> String {
    let what = if HAS_SEVERAL.load(Ordering::SeqCst) {
        "process"
    } else {
        "rank"
    };
    match RANK.get() {
        Some(rank) => format!("{what} {rank} on {}", placement::host_name()),
        None => placement::host_name(),
    }
}

/// Ends the whole job with `code`, saying `sentence` and who says it. Any thread may call it; the first call wins.
pub fn job(code: Code, sentence: &str) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is at it; this one must not disturb, and not go on either.
        thread::sleep(2 * PATIENCE);
        exit_now(code);
    }
    // First of all: the message may hang on a full pipe, MPI_Abort in MPI.
    let timer = thread::Builder::new().spawn(move || {
        thread::sleep(PATIENCE);
        exit_now(code)
    });
    // A signal reaches every rank, so one of them speaks for all.
    if code != Code::Stopped || RANK.get().is_none_or(|rank| *rank == 0) {
        say!("pxnbench: {}: {sentence}", who());
    }
    // Another thread may be saving the log that waits there.
    if save(code, sentence, Moment::End) {
        scratch::remove();
    }
    // Without the timer nothing ends MPI_Abort, where it hangs.
    if timer.is_ok()
        && let Some(abort) = ABORTER.get()
    {
        abort(code as i32);
    }
    exit_now(code)
}

/// Ends this process at once, without exit handlers.
fn exit_now(code: Code) -> ! {
    // SAFETY: _exit takes an int, touches no memory of ours, and does not come back.
    unsafe { libc::_exit(code as i32) }
}

/// Ends this process at once and silently: it speaks for nobody.
pub fn end_quietly(code: Code) -> ! {
    exit_now(code)
}
