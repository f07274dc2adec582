//! What is saved of this process if the job is ended, whoever ends it.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::exit::Code;

/// A function that saves what was measured, given the exit code and the reason for the end. It
/// returns the exit code, another one if something cannot be saved.
pub(super) type LastWords = Box<dyn FnMut(Code, &str, Moment) -> Code + Send>;

/// The moment at which final messages are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The job may still end normally.
    Warned,
    /// The job ends now.
    End,
}

static LAST_WORDS: Mutex<Option<LastWords>> = Mutex::new(None);
/// What the last words keep, as messages call it.
static KEPT: OnceLock<&str> = OnceLock::new();

/// How long a second signal waits for the files to be saved.
const SAVING: Duration = Duration::from_millis(300);

/// Sets the function that saves what was measured, which messages call `kept`, such as
/// `finished cases`, if the job is ended from here.
pub fn set_last_words(kept: &'static str, words: LastWords) {
    // A process measures one thing.
    let _ = KEPT.set(kept);
    let mut last_words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    *last_words = Some(words);
}

/// Drops that function, and what it saves with it: everything is saved, and nothing can fail any
/// more.
pub fn forget_last_words() {
    // A thread that saves because of a signal needs an instant. If it needs longer, nothing is
    // lost: what it holds ends with the process.
    for _ in 0..100 {
        if let Ok(mut last_words) = LAST_WORDS.try_lock() {
            *last_words = None;
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns what this process saves if the job is ended, as messages call it; `None` if it measures
/// nothing.
pub fn kept() -> Option<&'static str> {
    // A lock that is held is held by a thread that saves.
    let is_kept = LAST_WORDS.try_lock().map_or(true, |words| words.is_some());
    KEPT.get().copied().filter(|_| is_kept)
}

/// Saves what was measured. Returns the exit code, which is another one if something cannot be
/// saved; `None` if another thread is saving.
pub(super) fn save(code: Code, reason: &str, moment: Moment) -> Option<Code> {
    // The thread that holds the lock may be the one that hangs, so this does not wait for it.
    let mut last_words = LAST_WORDS.try_lock().ok()?;
    Some(match last_words.as_mut() {
        Some(last_words) => last_words(code, reason, moment),
        None => code,
    })
}

/// Waits until no thread saves what was measured.
pub(super) fn wait_until_saved() {
    const LOOK: Duration = Duration::from_millis(5);
    let began = Instant::now();
    while LAST_WORDS.try_lock().is_err() && began.elapsed() < SAVING {
        thread::sleep(LOOK);
    }
}
