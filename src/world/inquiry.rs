//! Questions that are asked when a job is stuck, before it ends: what a library knows of the other
//! ranks, and what threads do.
//!
//! [`add`] sets them. The watch and the deadline ask all at once, each on a thread of its own, and
//! wait for none longer than its limit.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

/// A function that returns a clause for the message, if there is anything to say. It gets the rank
/// that the message names, if it names one. Any thread may call it.
type Ask = dyn Fn(Option<u32>) -> Option<String> + Send + Sync;

/// A question.
struct Inquiry {
    limit: Duration,
    ask: Arc<Ask>,
}

static INQUIRIES: Mutex<Vec<Inquiry>> = Mutex::new(Vec::new());

/// How often the wait for answers looks.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Adds a question whose answer may take `limit`. `ask` returns a clause without an end, such as
/// `NCCL's RAS reports …`.
pub fn add(limit: Duration, ask: impl Fn(Option<u32>) -> Option<String> + Send + Sync + 'static) {
    let ask = Arc::new(ask);
    inquiries().push(Inquiry { limit, ask });
}

fn inquiries() -> MutexGuard<'static, Vec<Inquiry>> {
    INQUIRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns how long all answers may take.
pub(super) fn longest() -> Duration {
    let limits = inquiries().iter().map(|inquiry| inquiry.limit).max();
    limits.unwrap_or_default()
}

/// Asks all questions because of rank `named`, if the message names one.
pub(super) fn ask_all(named: Option<u32>) -> Answers {
    let began = Instant::now();
    let mut answers = Vec::new();
    for Inquiry { limit, ask } in inquiries().iter() {
        let (sender, receiver) = mpsc::channel();
        let ask = Arc::clone(ask);
        let asking = thread::Builder::new().spawn(move || {
            // Nobody waits for a late answer.
            let _ = sender.send(ask(named));
        });
        if asking.is_ok() {
            answers.push(Answer {
                limit: *limit,
                receiver,
                said: None,
            });
        }
    }
    Answers { began, answers }
}

/// The answers to all questions, as they come.
pub(super) struct Answers {
    began: Instant,
    answers: Vec<Answer>,
}

struct Answer {
    limit: Duration,
    receiver: Receiver<Option<String>>,
    said: Option<String>,
}

impl Answers {
    /// Returns answers to no question.
    pub(super) fn none() -> Answers {
        Answers {
            began: Instant::now(),
            answers: Vec::new(),
        }
    }

    /// Takes the answers that have come, and returns all as sentences that follow one without an
    /// end; `None` as long as one may come.
    pub(super) fn sentences(&mut self) -> Option<String> {
        let elapsed = self.began.elapsed();
        let mut is_complete = true;
        for answer in &mut self.answers {
            match answer.receiver.try_recv() {
                Ok(said) => answer.said = said,
                Err(TryRecvError::Empty) if elapsed < answer.limit => is_complete = false,
                // Too late, or taken before.
                Err(_) => {}
            }
        }
        let said = self
            .answers
            .iter()
            .filter_map(|answer| answer.said.as_deref());
        is_complete.then(|| said.map(|said| format!(". {said}")).collect())
    }

    /// Waits for all answers, and returns them as sentences that follow one without an end.
    pub(super) fn wait(mut self) -> String {
        loop {
            match self.sentences() {
                Some(sentences) => return sentences,
                None => thread::sleep(LOOK),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_their_order_and_a_late_one_is_not_waited_for() {
        assert_eq!(ask_all(None).wait(), "");
        assert_eq!(longest(), Duration::ZERO);
        let limit = Duration::from_millis(300);
        add(Duration::from_secs(60), |named| {
            thread::sleep(Duration::from_millis(20));
            named.map(|rank| format!("rank {rank} sleeps"))
        });
        let (hold, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        add(limit, move |_| {
            let _ = held.lock().map(|held| held.recv());
            Some("too late".into())
        });
        add(limit, |_| Some("nobody else does".into()));
        assert_eq!(longest(), Duration::from_secs(60));
        let asked = Instant::now();
        assert_eq!(ask_all(Some(3)).wait(), ". rank 3 sleeps. nobody else does");
        assert!(asked.elapsed() >= limit);
        assert_eq!(Answers::none().wait(), "");
        drop(hold);
    }
}
