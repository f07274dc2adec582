//! Messages and bytes that rails carried.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::wire::Peer;

/// Messages that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    /// The rail of this process.
    pub(crate) rail: u32,
    pub(crate) peer: Peer,
    /// The id of NCCL's communicator; `None` if the interface does not tell.
    pub(crate) communicator: Option<u64>,
    /// The rank, in the communicator, whose data it is.
    pub(crate) origin: i32,
    /// Whether the sending process sends it for another rank; `None` if that cannot be told.
    pub(crate) is_relayed: Option<bool>,
}

/// Messages that NCCL passed to a connection and that have not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) rail: u32,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// How long ago NCCL passed the first of them.
    pub(crate) oldest: Duration,
}

/// How much that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

pub(crate) type Tallies = BTreeMap<Flow, Tally>;

/// What this process sent and received.
#[derive(Default)]
pub(crate) struct Counters {
    sent: Mutex<Tallies>,
    received: Mutex<Tallies>,
}

fn held(tallies: &Mutex<Tallies>) -> MutexGuard<'_, Tallies> {
    tallies.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(tallies: &Mutex<Tallies>, flow: Flow, bytes: u64) {
    let mut tallies = held(tallies);
    let tally = tallies.entry(flow).or_default();
    tally.messages += 1;
    tally.bytes += bytes;
}

impl Counters {
    /// Counts a message that was handed over completely.
    pub(crate) fn count_sent(&self, flow: Flow, bytes: u64) {
        count(&self.sent, flow, bytes);
    }

    /// Counts a message that arrived completely.
    pub(crate) fn count_received(&self, flow: Flow, bytes: u64) {
        count(&self.received, flow, bytes);
    }

    /// Returns what was sent and what was received so far.
    pub(crate) fn so_far(&self) -> (Tallies, Tallies) {
        (held(&self.sent).clone(), held(&self.received).clone())
    }
}
