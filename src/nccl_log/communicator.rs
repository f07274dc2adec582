//! One communicator, and what a log shows of it.

use std::collections::HashSet;

use super::{
    connections::{SendCounts, Traffic},
    graph::{GraphPaths, Rings},
    limits::{MANY, quoted},
    line::{CommEvent, CommView, Connection, Net, RingNumbers, Side, Via},
};

/// Network connections of a communicator by what they are for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrafficCounts {
    /// Of rings.
    pub(super) rings: SendCounts,
    /// Of trees.
    pub(super) trees: SendCounts,
    /// Of collectives, and the log does not say of which.
    pub(super) rings_or_trees: SendCounts,
    /// Of send/recv.
    pub(super) send_recv: SendCounts,
    /// The line does not say (before 2.12).
    pub(super) unsorted: SendCounts,
}

impl TrafficCounts {
    /// Returns the counts of collectives.
    pub(super) fn collective(&self) -> SendCounts {
        let mut all = self.rings;
        all.add(&self.trees);
        all.add(&self.rings_or_trees);
        all
    }

    /// Returns all counts together.
    pub(super) fn total(&self) -> SendCounts {
        let mut all = self.collective();
        all.add(&self.send_recv);
        all.add(&self.unsorted);
        all
    }

    fn add(&mut self, other: &TrafficCounts) {
        self.rings.add(&other.rings);
        self.trees.add(&other.trees);
        self.rings_or_trees.add(&other.rings_or_trees);
        self.send_recv.add(&other.send_recv);
        self.unsorted.add(&other.unsorted);
    }
}

/// Networks that the sends of a communicator use.
#[derive(Clone, Copy, Debug, Default)]
struct UsedNetworks {
    sockets: bool,
    others: bool,
}

/// A communicator: its size, and what the ranks in the log did.
#[derive(Clone, Debug, Default)]
pub(super) struct Communicator {
    /// NCCL's id (2.14).
    pub(super) id: Option<u64>,
    /// The number of ranks.
    pub(super) ranks: Option<u64>,
    /// The number of nodes (2.20).
    pub(super) nodes: Option<u64>,
    /// The most ranks that a node has (2.20).
    pub(super) local_ranks: Option<u64>,
    /// Whether NVLink joins its nodes.
    pub(super) nvlink_joins_nodes: bool,
    /// Network connections.
    pub(super) traffic: TrafficCounts,
    /// Messages that rings are connected.
    pub(super) rings: Rings,
    /// The number of messages that trees are connected.
    pub(super) trees: u64,
    /// Paths and graphs.
    pub(super) paths: GraphPaths,
    /// Connections that do not use a network.
    pub(super) local: u64,
    /// Whether collectives go through the network's own reduction.
    pub(super) has_collnet: bool,
    /// Whether its processes read `NCCL_PXN_DISABLE` as 1; `None` if none of them says what it
    /// read.
    pub(super) pxn_off: Option<bool>,
    /// The line that tells its size.
    pub(super) size_line: Option<String>,
    ranks_seen: HashSet<u64>,
    highest_rank: u64,
    host: Option<u64>,
    has_several_hosts: bool,
    /// Whether a process does not name its host.
    lacks_a_host: bool,
    networks: UsedNetworks,
}

impl Communicator {
    /// Adds what a process on `host` says of it.
    pub(super) fn add_view(&mut self, view: &CommView, host: Option<u64>) {
        self.id = self.id.or(view.id);
        self.ranks = Some(view.ranks);
        self.nodes = self.nodes.max(view.nodes);
        self.local_ranks = self.local_ranks.max(view.local_ranks);
        self.nvlink_joins_nodes |= view.nvlink_joins_nodes;
        if self.ranks_seen.len() < MANY {
            self.ranks_seen.insert(view.rank);
        }
        self.lacks_a_host |= host.is_none();
        if let Some(host) = host {
            self.has_several_hosts |= self.host.is_some_and(|known| known != host);
            self.host = Some(host);
        }
    }

    /// Keeps `line` if it tells the communicator's size.
    pub(super) fn quote(&mut self, event: CommEvent, line: &[u8]) {
        if event == CommEvent::Size && self.size_line.is_none() {
            self.size_line = Some(quoted(line));
        }
    }

    /// Adds a connection. Sends of collectives are counted by the caller, who learns later what
    /// they are for.
    pub(super) fn add_connection(&mut self, connection: &Connection<'_>) {
        let highest = connection.from.rank.max(connection.to.rank);
        self.highest_rank = self
            .highest_rank
            .max(highest.try_into().unwrap_or_default());
        match connection.via {
            Via::Other(_) => self.local += 1,
            Via::Net(net) => self.add_network_end(connection, &net),
        }
    }

    fn add_network_end(&mut self, connection: &Connection<'_>, net: &Net<'_>) {
        let traffic = Traffic::from_index(connection.index);
        let counts = match traffic {
            Traffic::Collective => &mut self.traffic.rings_or_trees,
            Traffic::SendRecv => &mut self.traffic.send_recv,
            Traffic::Unsorted => &mut self.traffic.unsorted,
        };
        if connection.side == Side::Receive {
            counts.add_receive(net);
            return;
        }
        let is_socket = net.name == b"Socket";
        self.networks.sockets |= is_socket;
        self.networks.others |= !is_socket;
        if traffic != Traffic::Collective {
            counts.add_send(net, connection.is_same_rail());
        }
    }

    /// Adds a message that rings are connected; `sends` are those of the rank that logs it. If NCCL
    /// says that no ring uses PXN, relayed connections before it belong to something else.
    pub(super) fn add_rings(&mut self, numbers: Option<RingNumbers>, sends: &SendCounts) {
        self.rings.add_message(numbers);
        let is_contradiction = sends.relayed > 0 && numbers.is_some_and(|numbers| !numbers.pxn);
        if is_contradiction {
            self.traffic.rings_or_trees.add(sends);
        } else {
            self.traffic.rings.add(sends);
        }
    }

    /// Adds a message that trees are connected; `sends` are those of the rank that logs it.
    pub(super) fn add_trees(&mut self, sends: &SendCounts) {
        self.trees += 1;
        self.traffic.trees.add(sends);
    }

    /// Adds what is known of `other`, which turned out to be the same communicator.
    pub(super) fn absorb(&mut self, other: &Communicator) {
        self.traffic.add(&other.traffic);
        self.rings.add(&other.rings);
        self.trees += other.trees;
        self.paths.add(&other.paths);
        self.local += other.local;
        self.has_collnet |= other.has_collnet;
        self.highest_rank = self.highest_rank.max(other.highest_rank);
        self.networks.sockets |= other.networks.sockets;
        self.networks.others |= other.networks.others;
    }

    /// Adds what one of its processes read for `NCCL_PXN_DISABLE`: PXN is off if all that say so
    /// read 1.
    pub(super) fn add_pxn_setting(&mut self, is_off: bool) {
        self.pxn_off = Some(self.pxn_off.unwrap_or(true) && is_off);
    }

    /// Returns how many of its ranks appear in the log.
    pub(super) fn ranks_seen(&self) -> u64 {
        self.ranks_seen.len() as u64
    }

    /// Returns whether ranks are known to be missing from the log: the communicator has more than
    /// appear, or a connection names one that does not.
    pub(super) fn lacks_ranks(&self) -> bool {
        let known = self.ranks.unwrap_or_default().max(self.highest_rank + 1);
        self.ranks_seen() < known
    }

    /// Returns whether connections of `other` can be of this communicator if the log knows no
    /// other: those that leave their node cannot be if it is on one.
    pub(super) fn may_include(&self, other: &Communicator) -> bool {
        let has_ranks = self.ranks.is_some_and(|ranks| other.highest_rank < ranks);
        self.nodes != Some(1) || (has_ranks && !other.has_network())
    }

    /// Returns the highest rank that a connection names.
    pub(super) fn highest_rank(&self) -> u64 {
        self.highest_rank
    }

    /// Returns whether an end of a connection over a network is in the log.
    pub(super) fn has_network(&self) -> bool {
        let all = self.traffic.total();
        all.sends + all.receives > 0
    }

    /// Returns whether the log has a connection.
    pub(super) fn has_connections(&self) -> bool {
        self.local > 0 || self.has_collnet || self.has_network()
    }

    /// Returns whether all ranks are in the log, on one host, and none of them uses a network.
    pub(super) fn is_seen_on_one_host(&self) -> bool {
        // Lines without the name of a host do not show that it is one.
        let is_one_host = !self.has_several_hosts && !self.lacks_a_host && self.host.is_some();
        self.local > 0 && !self.has_network() && is_one_host && !self.lacks_ranks()
    }

    /// Returns whether its sends use sockets and no other network.
    pub(super) fn has_only_sockets(&self) -> bool {
        self.networks.sockets && !self.networks.others
    }

    /// Returns whether its sends use a network other than sockets.
    pub(super) fn has_other_network(&self) -> bool {
        self.networks.others
    }

    /// Returns whether no node is known to have several of its ranks, and one is known to have one.
    pub(super) fn has_one_rank_per_node(&self) -> bool {
        match self.local_ranks {
            Some(local_ranks) => local_ranks == 1,
            None => self.paths.has_one_gpu_per_node(),
        }
    }

    /// Returns whether there are more ranks than nodes, so that a node has several.
    pub(super) fn has_more_ranks_than_nodes(&self) -> bool {
        match (self.ranks, self.nodes) {
            (Some(ranks), Some(nodes)) => ranks > nodes,
            _ => false,
        }
    }
}
