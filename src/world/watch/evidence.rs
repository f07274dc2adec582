//! What a backend knows of a job that is stuck, which the watch asks for at the end.

use std::{
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// A function that returns a clause for the message, if there is anything to say. Any thread may
/// call it.
type Evidence = Box<dyn Fn() -> Option<String> + Send>;

static EVIDENCE: Mutex<Option<Evidence>> = Mutex::new(None);

/// How long the answer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Sets the function that says what the library knows, as a clause without an end, such as
/// `NCCL reports …`.
pub fn set_evidence(evidence: Evidence) {
    *current() = Some(evidence);
}

/// Drops that function. It is not called any more when this returns.
pub fn forget_evidence() {
    *current() = None;
}

fn current() -> MutexGuard<'static, Option<Evidence>> {
    EVIDENCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for what the library knows. One that does not answer is not waited for.
pub(super) fn ask() -> Option<String> {
    let (sender, answer) = mpsc::channel();
    let asking = thread::Builder::new().spawn(move || {
        let said = current().as_ref().and_then(|evidence| evidence());
        // Nobody waits for a late answer.
        let _ = sender.send(said);
    });
    asking.ok()?;
    answer.recv_timeout(PATIENCE).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_does_not_answer_is_not_waited_for() {
        assert_eq!(ask(), None);
        set_evidence(Box::new(|| Some("NCCL reports nothing".into())));
        assert_eq!(ask().as_deref(), Some("NCCL reports nothing"));
        let (hold, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        set_evidence(Box::new(move || {
            let _ = held.lock().map(|held| held.recv());
            None
        }));
        let asked = Instant::now();
        assert_eq!(ask(), None);
        assert!(asked.elapsed() >= PATIENCE);
        drop(hold);
        forget_evidence();
        assert_eq!(ask(), None);
    }
}
