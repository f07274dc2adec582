//! Ends a job that cannot end normally.
//!
//! [`job`] ends it. The first thread that calls it does the following, in this order; a thread that
//! calls it later only waits for the end.
//!
//! 1. It starts a timer that ends this process if one of the next steps hangs. The timer prints the
//!    reason if that has not begun, and over TCP tells the other ranks.
//! 2. It prints the reason, on a thread of its own: standard error may be a pipe that nobody reads.
//!    A signal reaches every rank, so only rank 0 prints that one.
//! 3. It saves what was measured, with the function from [`set_last_words`], and removes the
//!    temporary files. If printing takes long, this comes before it.
//! 4. It ends the other ranks, with `MPI_Abort` or over TCP.
//! 5. It exits, without running exit handlers.

#![expect(
    unsafe_code,
    reason = "_exit is the only exit that runs no exit handler of MPI or CUDA, which can hang"
)]

use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

pub use super::last_words::{Moment, forget_last_words, kept, set_last_words};
use super::{
    cause::{self, Learned},
    end_of_job::EndOfJob,
    end_printing::{EndPrinting, PRINTING},
    last_words::{save, wait_until_saved},
    placement, scratch,
    within::do_within,
};
use crate::{exit::Code, streams};

/// A function that ends every other rank of the job, given the exit code and the reason. It returns
/// if it cannot.
type Aborter = fn(Code, &str);

/// The way in which the other ranks of a job end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OthersEnd {
    /// They are killed, even those that are still saving what was measured.
    Killed,
    /// They are told, and end by themselves.
    Told,
}

static RANK: OnceLock<u32> = OnceLock::new();
/// Whether this process has several ranks of a communicator, so that its own number is not theirs.
static HAS_SEVERAL_RANKS: AtomicBool = AtomicBool::new(false);
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Whether the reason has been printed, or is being printed.
static HAS_SPOKEN: AtomicBool = AtomicBool::new(false);
/// The exit code of the end that is under way.
static ENDING_CODE: OnceLock<Code> = OnceLock::new();
/// The function that ends every other rank of the job, once there are any, and how it does.
static ABORTER: OnceLock<(Aborter, OthersEnd)> = OnceLock::new();
/// How long an error of NCCL waits for the news that another rank is gone, from which it may
/// follow.
static NEWS_TAKE: OnceLock<Duration> = OnceLock::new();
/// The exit code, once everything is measured and saved.
static FINAL_CODE: OnceLock<Code> = OnceLock::new();

/// How long the end of a job may take. `MPI_Abort` kills the other ranks within a second or two.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a rank that ends because of another one leaves rank 0 to save what was measured. mpirun
/// kills those that it has asked to end after a second, but at once if one of them has ended, or
/// asks it to abort the job again.
const RANK_0_SAVES: Duration = Duration::from_millis(900);

/// How long saving waits for the reason to be printed. Where somebody reads it, it is printed by
/// then.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Sets the rank of this process, by which messages name it.
pub fn set_rank(rank: u32) {
    // The rank cannot change, so a second call has no effect.
    let _ = RANK.set(rank);
}

/// Notes that processes have several NCCL ranks each, so that messages name them as processes.
pub fn set_several_ranks() {
    HAS_SEVERAL_RANKS.store(true, Ordering::SeqCst);
}

/// Returns the rank of this process, if it is known yet.
pub fn rank() -> Option<u32> {
    RANK.get().copied()
}

/// Sets the function that ends every other rank of the job, and the way in which they then end.
pub fn set_aborter(aborter: Aborter, others: OthersEnd) {
    // A process joins one job.
    let _ = ABORTER.set((aborter, others));
}

/// Sets how long the news takes that another rank is gone, if such news comes: NCCL notices it too,
/// but does not know which rank it was.
pub fn expect_news_within(time: Duration) {
    // A process joins one job.
    let _ = NEWS_TAKE.set(time);
}

/// Notes that everything is measured and saved and that the program will exit with `code`. A
/// launcher stops all ranks when one of them exits with an error; from here on its signal needs no
/// message.
pub fn set_final_code(code: Code) {
    // The first code is the one that the program exits with.
    let _ = FINAL_CODE.set(code);
}

/// Returns whether everything is measured and saved.
pub fn is_final() -> bool {
    FINAL_CODE.get().is_some()
}

/// Saves what was measured at the first sign of a signal, because srun may kill this process within
/// half a second. If the job then ends normally, it is saved again. A launcher sends the signal
/// also if a rank has failed; then this process ends here. A disk that does not answer is not
/// waited for.
pub fn save_before_stop(reason: &str) {
    if is_final() {
        return;
    }
    let text = reason.to_owned();
    let save = move || {
        streams::limit_writes();
        save_at_warning(&text);
    };
    if do_within(PATIENCE, save).is_err() {
        save_at_warning(reason);
    }
}

fn save_at_warning(reason: &str) {
    if let Some(learned) = cause::behind_stop() {
        end_behind_stop(&learned);
    }
    // Who is asked to stop may be killed, and is then not lost.
    cause::leave();
    save(Code::Stopped, reason, Moment::Warned);
}

/// Ends the job because of a signal. If everything was saved before, only this process ends, and
/// silently.
pub fn end_by_signal(reason: &str) -> ! {
    match FINAL_CODE.get() {
        Some(code) => {
            scratch::remove();
            forget_last_words();
            exit_now(*code)
        }
        None => {
            // Notes of other ranks may be on a file system that does not answer.
            let _ = start_exit_timer(Code::Stopped, reason, message(Code::Stopped, reason));
            match cause::behind_stop() {
                Some(learned) => end_behind_stop(&learned),
                None => job(Code::Stopped, reason),
            }
        }
    }
}

/// Returns the name of this process for messages: `rank 3 on node7`, `process 3 on node7`, or the
/// host alone if the rank is not known yet.
pub fn process_name() -> String {
    let host = placement::host_name();
    let Some(rank) = RANK.get() else {
        return host;
    };
    if HAS_SEVERAL_RANKS.load(Ordering::SeqCst) {
        format!("process {rank} on {host}")
    } else {
        format!("rank {rank} on {host}")
    }
}

/// Ends the whole job with `code` and prints `reason`. Any thread may call it; the first call wins.
pub fn job(code: Code, reason: &str) -> ! {
    if code == Code::Nccl
        && let Some(time) = NEWS_TAKE.get()
    {
        // Another thread ends the job meanwhile if it learns that a rank is gone.
        thread::sleep(*time);
    }
    end(code, reason, Origin::ThisRank)
}

/// Ends this process because another rank ended the job, and prints why if `speaks` is set. Any
/// thread may call it; the first call of this and of [`job`] wins.
pub fn follow(ended: &EndOfJob, speaks: bool) -> ! {
    let origin = Origin::AnotherRank { is_said: !speaks };
    end(ended.code, &ended.sentence, origin)
}

/// Ends the job because of a second signal: at once if the first one, or anything else, is already
/// ending it.
pub fn end_by_second_signal(reason: &str) -> ! {
    if IS_ENDING.load(Ordering::SeqCst) {
        wait_until_saved();
        exit_now(ENDING_CODE.get().copied().unwrap_or(Code::Stopped));
    }
    end_by_signal(reason)
}

/// Ends this process, which the launcher stops because of a failure of another rank.
fn end_behind_stop(learned: &Learned) -> ! {
    let Learned { note, is_new } = learned;
    let origin = Origin::BehindStop { is_said: !is_new };
    end(note.end.code, &note.end.sentence, origin)
}

/// Ends this process at once and silently if everything is measured and saved.
pub fn end_if_all_is_saved() {
    if let Some(code) = FINAL_CODE.get() {
        scratch::remove();
        forget_last_words();
        exit_now(*code);
    }
}

/// The rank that the reason for an end comes from.
enum Origin {
    /// This one, or a signal that reached it.
    ThisRank,
    /// Another one, which the reason names, and whether somebody has printed it.
    AnotherRank { is_said: bool },
    /// As the one before, where the launcher is ending all ranks already. Were it asked to, mpirun
    /// would kill at once those that still save.
    BehindStop { is_said: bool },
}

impl Origin {
    /// Returns the line that says why the job ends, before it is known whether another rank failed
    /// first.
    fn message(&self, code: Code, reason: &str) -> Option<String> {
        match self {
            Origin::ThisRank => message(code, reason),
            Origin::AnotherRank { is_said } | Origin::BehindStop { is_said } => {
                (!is_said).then(|| format!("pxnbench: {reason}"))
            }
        }
    }
}

/// What is printed and recorded when this process ends the job.
struct End {
    code: Code,
    reason: String,
    /// Lines, without their ends.
    messages: Vec<String>,
    /// How long after that this process ends the other ranks; `None` if the launcher does.
    ends_others_after: Option<Duration>,
}

impl End {
    fn new(code: Code, reason: &str, origin: &Origin, message: Option<String>) -> End {
        match origin {
            Origin::ThisRank => End::of_this_rank(code, reason),
            Origin::AnotherRank { .. } => End::of_another_rank(code, reason, message),
            Origin::BehindStop { .. } => End {
                ends_others_after: None,
                ..End::of_another_rank(code, reason, message)
            },
        }
    }

    fn of_another_rank(code: Code, reason: &str, message: Option<String>) -> End {
        cause::leave();
        End {
            code,
            reason: reason.to_owned(),
            messages: Vec::from_iter(message),
            ends_others_after: Some(time_to_save()),
        }
    }

    /// Finds out whether another rank failed before this one.
    fn of_this_rank(code: Code, reason: &str) -> End {
        let settled = cause::settle(code, reason, &process_name());
        let mut messages = Vec::new();
        match &settled.other {
            None => messages.extend(message(code, &settled.end.sentence)),
            Some(Learned { note, is_new: true }) => {
                messages.push(format!("pxnbench: {}", note.end.sentence));
                messages.extend(message(code, reason));
            }
            Some(_) if settled.is_consequence => {}
            Some(_) => messages.extend(message(code, reason)),
        }
        End {
            code: settled.end.code,
            reason: settled.end.sentence,
            messages,
            ends_others_after: Some(match settled.other {
                Some(_) => time_to_save(),
                None => Duration::ZERO,
            }),
        }
    }
}

/// Returns how long this process leaves rank 0 to save what was measured: not if it is rank 0, nor
/// over TCP, where each rank learns of the end and ends by itself.
fn time_to_save() -> Duration {
    match rank() {
        Some(0) => Duration::ZERO,
        _ if others_are_told() => Duration::ZERO,
        _ => RANK_0_SAVES,
    }
}

fn end(code: Code, reason: &str, origin: Origin) -> ! {
    if IS_ENDING.swap(true, Ordering::SeqCst) {
        // The thread that ends the job exits for this one too.
        thread::sleep(2 * PATIENCE);
        exit_now(code);
    }
    // The timer comes first: saving may hang on a file system, MPI_Abort in MPI.
    let message = origin.message(code, reason);
    let timer = start_exit_timer(code, reason, message.clone());
    streams::limit_writes();
    let End {
        code,
        reason,
        messages,
        ends_others_after,
    } = End::new(code, reason, &origin, message);
    let reason = reason.as_str();
    // The first code is the one that the program exits with.
    let _ = ENDING_CODE.set(code);
    let messages = match HAS_SPOKEN.swap(true, Ordering::SeqCst) {
        true => Vec::new(),
        false => messages,
    };
    let printing = EndPrinting::start(&messages);
    printing.wait(AT_ONCE);
    // If it cannot save, another thread may be saving the log that waits in the folder.
    let saved = save(code, reason, Moment::End);
    if saved.is_some() {
        scratch::remove();
    }
    let code = saved.unwrap_or(code);
    printing.wait(PRINTING);
    // Without a timer nothing would end this process if MPI_Abort hangs.
    match (ends_others_after, &timer) {
        (Some(pause), Ok(_)) => {
            thread::sleep(pause);
            abort_all_ranks(code, reason);
        }
        _ => thread::sleep(time_to_save()),
    }
    exit_now(code)
}

/// Ends this process at once and silently; other processes are not affected.
pub fn end_quietly(code: Code) -> ! {
    exit_now(code)
}

/// Starts the timer. It prints `message` if nothing has been printed: finding out who failed first
/// reads and writes files, and on a busy machine a thread may wait long for a processor.
fn start_exit_timer(
    code: Code,
    reason: &str,
    message: Option<String>,
) -> io::Result<thread::JoinHandle<()>> {
    let reason = reason.to_owned();
    thread::Builder::new().spawn(move || {
        thread::sleep(PATIENCE);
        if let Some(message) = message.filter(|_| !HAS_SPOKEN.swap(true, Ordering::SeqCst)) {
            EndPrinting::start(&[message]).wait(PRINTING);
        }
        // That of a rank that failed before this one, if it is known by now.
        let code = ENDING_CODE.get().copied().unwrap_or(code);
        if others_are_told() {
            // They would take this process for one that was killed, and end with another code.
            let _ = do_within(AT_ONCE, cause::leave);
            abort_all_ranks(code, &reason);
        }
        exit_now(code)
    })
}

/// Returns the line that says why this process ends the job.
fn message(code: Code, reason: &str) -> Option<String> {
    let is_by_signal = code == Code::Stopped;
    let speaks = !is_by_signal || RANK.get().is_none_or(|rank| *rank == 0);
    speaks.then(|| format!("pxnbench: {}: {reason}", process_name()))
}

fn abort_all_ranks(code: Code, reason: &str) {
    if let Some((abort, _)) = ABORTER.get() {
        abort(code, reason);
    }
}

/// Returns whether the other ranks end by themselves once they are told.
fn others_are_told() -> bool {
    let aborter = ABORTER.get();
    aborter.is_some_and(|(_, others)| *others == OthersEnd::Told)
}

/// Ends this process at once, without running exit handlers.
fn exit_now(code: Code) -> ! {
    // SAFETY: _exit takes an int, touches no memory of ours, and does not return.
    unsafe { libc::_exit(code as i32) }
}
