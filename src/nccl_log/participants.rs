//! The processes, ranks and communicators that a log shows.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    limits::{MANY, hashed},
    line::{CommEvent, CommView, Speaker},
};

/// How many communicators a process started, completed and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    started: u64,
    complete: u64,
    ended: u64,
}

impl Process {
    /// Returns the number of communicators that the process is sure to have made. One that it ended was complete, even if
    /// the line that says so is torn.
    fn made(self) -> u64 {
        self.complete.max(self.ended)
    }
}

/// The processes, ranks and communicators of a log.
#[derive(Debug, Default)]
pub(super) struct Participants {
    processes: HashMap<u64, Process>,
    hosts: BTreeSet<Vec<u8>>,
    communicators: HashSet<u64>,
    first_ranks: u64,
    ranks: Option<u64>,
    ranks_seen: HashSet<u64>,
    nodes: Option<u64>,
    local_ranks: Option<u64>,
    nvlink_joins_nodes: bool,
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
        let speaker = Speaker::parse(head);
        if let Some(speaker) = speaker
            && self.hosts.len() < MANY
            && !self.hosts.contains(speaker.host)
        {
            self.hosts.insert(speaker.host.to_vec());
        }
        if event == CommEvent::Complete {
            self.first_ranks += u64::from(comm.rank == 0);
        }
        let identity = identity(speaker);
        if self.processes.len() >= MANY && !self.processes.contains_key(&identity) {
            return;
        }
        let process = self.processes.entry(identity).or_default();
        match event {
            CommEvent::Start => process.started += 1,
            CommEvent::Complete => process.complete += 1,
            CommEvent::Size => {}
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
        self.local_ranks = self.local_ranks.max(comm.local_ranks);
        self.nvlink_joins_nodes |= comm.nvlink_joins_nodes;
    }

    /// Adds the end of a communicator.
    pub(super) fn add_end(&mut self, head: &[u8]) {
        if let Some(process) = self.processes.get_mut(&identity(Speaker::parse(head))) {
            process.ended += 1;
        }
    }

    /// Returns the number of processes that made a communicator.
    pub(super) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Returns the number of processes that started more communicators than they completed.
    pub(super) fn unfinished(&self) -> usize {
        self.processes
            .values()
            .filter(|process| process.started > process.made())
            .count()
    }

    /// Returns whether processes started communicators and none of them completed one.
    pub(super) fn is_never_ready(&self) -> bool {
        let is_unready = |process: &Process| process.started > 0 && process.made() == 0;
        !self.processes.is_empty() && self.processes.values().all(is_unready)
    }

    /// Returns the number of communicators: by their ids, or by their first ranks if NCCL gives no ids.
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

    /// Returns whether each node has one rank.
    pub(super) fn has_one_rank_per_node(&self) -> bool {
        self.local_ranks == Some(1)
    }

    /// Returns whether NVLink joins nodes.
    pub(super) fn nvlink_joins_nodes(&self) -> bool {
        self.nvlink_joins_nodes
    }
}

/// Returns the identity of a process. Lines whose beginning is torn count as one process.
fn identity(speaker: Option<Speaker<'_>>) -> u64 {
    hashed(speaker.map(|speaker| (speaker.host, speaker.pid)))
}
