//! [`Communicators`]: NCCL's communicators, and the ranks of this process in them.
//!
//! NCCL tells a net plugin the id of a communicator (interface v11), and a profiler plugin the id
//! and the rank. This library is both plugins. NCCL sets them up on the same thread, so the thread
//! tells apart the ranks of one communicator in a process with several GPUs. The tag of a message
//! is the rank whose data it has; if this is another rank, this process relays the message.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
};

/// A rank of this process in a communicator.
pub(crate) struct Communicator {
    /// NCCL's id; `None` before interface v11.
    pub(crate) id: Option<u64>,
    rank: OnceLock<i32>,
    thread: ThreadId,
}

impl Communicator {
    pub(crate) fn new(id: Option<u64>) -> Communicator {
        Communicator {
            id,
            rank: OnceLock::new(),
            thread: thread::current().id(),
        }
    }

    /// Returns a communicator whose rank is known.
    pub(crate) fn with_rank(id: Option<u64>, rank: i32) -> Communicator {
        let communicator = Communicator::new(id);
        communicator.rank.get_or_init(|| rank);
        communicator
    }

    /// Returns whether this process sends data of `origin` for another rank; `None` if its own rank
    /// is unknown.
    pub(crate) fn relays(&self, origin: i32) -> Option<bool> {
        Some(*self.rank.get()? != origin)
    }
}

/// The communicators of this process.
#[derive(Default)]
pub(crate) struct Communicators {
    last: AtomicUsize,
    open: Mutex<BTreeMap<usize, Arc<Communicator>>>,
}

impl Communicators {
    fn held(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Communicator>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the communicator that NCCL sets up on this thread, and returns its number, which is
    /// never 0.
    pub(crate) fn open(&self, id: u64) -> usize {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let communicator = Arc::new(Communicator::new(Some(id)));
        self.held().insert(number, communicator);
        number
    }

    /// Sets this process's rank in the communicator that NCCL sets up on this thread.
    pub(crate) fn set_rank(&self, id: u64, rank: i32) {
        let thread = thread::current().id();
        let held = self.held();
        let newest_first = held.values().rev();
        let mut same = newest_first.filter(|known| known.id == Some(id) && known.thread == thread);
        if let Some(communicator) = same.next() {
            communicator.rank.get_or_init(|| rank);
        }
    }

    pub(crate) fn get(&self, number: usize) -> Option<Arc<Communicator>> {
        self.held().get(&number).cloned()
    }

    pub(crate) fn close(&self, number: usize) {
        self.held().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_rank_is_relayed() {
        let communicators = Communicators::default();
        let (world, half) = (communicators.open(0xfe40), communicators.open(0x77));
        let of = |number| communicators.get(number).expect("open");
        assert_eq!(of(world).relays(0), None, "its rank is not known yet");
        communicators.set_rank(0xfe40, 3);
        communicators.set_rank(0x77, 1);
        assert_eq!(of(world).relays(3), Some(false));
        assert_eq!(of(world).relays(1), Some(true));
        assert_eq!(of(half).relays(1), Some(false));
        communicators.close(half);
        assert!(communicators.get(half).is_none());
    }

    #[test]
    fn ranks_of_one_communicator_are_told_apart_by_their_threads() {
        let communicators = Communicators::default();
        let numbers: Vec<usize> = thread::scope(|scope| {
            let rank = |rank| {
                let communicators = &communicators;
                scope.spawn(move || {
                    let number = communicators.open(5);
                    communicators.set_rank(5, rank);
                    number
                })
            };
            let threads = [0, 1, 2, 3].map(rank);
            threads
                .into_iter()
                .map(|thread| thread.join().expect("joined"))
                .collect()
        });
        for (rank, number) in (0..).zip(numbers) {
            let own = communicators.get(number).expect("open");
            assert_eq!(own.relays(rank), Some(false), "{rank}");
        }
    }

    #[test]
    fn a_communicator_with_the_id_of_an_earlier_one_has_its_own_rank() {
        let communicators = Communicators::default();
        let first = communicators.open(5);
        communicators.set_rank(5, 0);
        let second = communicators.open(5);
        communicators.set_rank(5, 2);
        let of = |number| communicators.get(number).expect("open");
        assert_eq!(of(first).relays(0), Some(false));
        assert_eq!(of(second).relays(2), Some(false));
    }
}
