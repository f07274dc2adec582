//! The ranks, nodes and hosts that a log names.

use std::collections::{BTreeSet, HashSet};

use super::{
    limits::MANY,
    line::{CommEvent, CommView, Speaker},
};

/// The ranks, nodes and hosts of a log.
#[derive(Debug, Default)]
pub(super) struct Participants {
    hosts: BTreeSet<Vec<u8>>,
    communicators: HashSet<u64>,
    first_ranks: u64,
    ranks: Option<u64>,
    ranks_seen: HashSet<u64>,
    nodes: Option<u64>,
}

impl Participants {
    /// Adds `event` of a communicator; `head` is the text before the line's header.
    pub(super) fn add(&mut self, event: CommEvent, head: &[u8], comm: &CommView) {
        self.add_size(comm);
        if let Some(id) = comm.id
            && self.communicators.len() < MANY
        {
            self.communicators.insert(id);
        }
        if let Some(speaker) = Speaker::parse(head)
            && !speaker.host.is_empty()
            && self.hosts.len() < MANY
            && !self.hosts.contains(speaker.host)
        {
            self.hosts.insert(speaker.host.to_vec());
        }
        if event == CommEvent::Complete {
            self.first_ranks += u64::from(comm.rank == 0);
        }
    }

    /// Adds ranks and nodes. Those of the largest communicator count.
    fn add_size(&mut self, comm: &CommView) {
        if self.ranks < Some(comm.ranks) {
            self.ranks = Some(comm.ranks);
            self.ranks_seen.clear();
        }
        if self.ranks == Some(comm.ranks) && self.ranks_seen.len() < MANY {
            self.ranks_seen.insert(comm.rank);
        }
        self.nodes = self.nodes.max(comm.nodes);
    }

    /// Returns the number of communicators: by their ids, or by their first ranks if NCCL gives no
    /// ids.
    pub(super) fn communicators(&self) -> u64 {
        if self.communicators.is_empty() {
            self.first_ranks
        } else {
            self.communicators.len() as u64
        }
    }

    /// Returns the number of hosts.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the ranks of the largest communicator.
    pub(super) fn ranks(&self) -> Option<u64> {
        self.ranks
    }

    /// Returns how many ranks of the largest communicator appear in the log.
    pub(super) fn ranks_seen(&self) -> usize {
        self.ranks_seen.len()
    }

    /// Returns the nodes of the largest communicator.
    pub(super) fn nodes(&self) -> Option<u64> {
        self.nodes
    }
}
