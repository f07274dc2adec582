//! How much of a collective's traffic crosses a link.

use super::limits::Place;
use crate::collective::Collective;

/// The traffic of a collective among ranks.
///
/// Rings and trees are taken to send what busbw counts over every link of their way, once per
/// direction: that is how nccl-tests scales busbw. Collectives made of sends and receives have
/// known messages, which are counted.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// The collective.
    pub collective: Collective,
    /// Its root, if it has one.
    pub root: u32,
    /// The node of each rank.
    pub nodes: &'a [u32],
}

/// Which ranks of a collective made of sends and receives have messages for which.
#[derive(Clone, Copy)]
enum Messages {
    /// Each rank has one for each other.
    FromEachToEach,
    /// The root has one for each other rank, or each other rank for the root.
    WithRoot,
    /// Each rank has one for the next.
    ToNext,
    /// In round k, each rank exchanges 2ᵏ with the one whose number differs in bit k.
    InRounds,
}

impl Traffic<'_> {
    /// Returns the bytes that cross `place` in one direction for each byte that busbw counts.
    pub fn share(&self, place: &Place) -> f64 {
        let messages = match self.collective {
            Collective::AllToAll => Messages::FromEachToEach,
            Collective::Gather | Collective::Scatter => Messages::WithRoot,
            Collective::SendRecv => Messages::ToNext,
            Collective::HyperCube => Messages::InRounds,
            // A ring or a tree need not use the link between two given ranks.
            Collective::AllReduce
            | Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Broadcast
            | Collective::Reduce => return f64::from(u8::from(!matches!(place, Place::Pair(..)))),
            // Its ranks send different amounts, so it has no peak.
            Collective::AllToAllV => return 0.0,
        };
        match place {
            Place::Rank(rank) => self.share_of_rank(messages, *rank),
            Place::Pair(a, b) => self.share_of_pair(messages, *a, *b),
            Place::Switch { members, .. } | Place::Node { members, .. } => {
                self.share_of_members(messages, members)
            }
        }
    }

    fn ranks(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns all messages of a rank but its own: what busbw counts, in messages.
    fn messages(&self) -> f64 {
        f64::from(self.ranks() - 1)
    }

    /// Returns the messages that `rank` exchanges in a hypercube with those peers: in round k 2ᵏ
    /// with the rank that differs in bit k.
    fn exchanged(&self, rank: u32, is_counted: impl Fn(u32) -> bool) -> f64 {
        let rounds = (0..u32::BITS).map(|round| 1_u32 << round);
        let mut messages = 0;
        for distance in rounds.take_while(|distance| *distance < self.ranks()) {
            let peer = rank ^ distance;
            if peer < self.ranks() && is_counted(peer) {
                messages += distance;
            }
        }
        f64::from(messages)
    }

    /// Returns the share that the links of a rank inside its node carry: its messages with the
    /// other ranks of the node.
    fn share_of_rank(&self, messages: Messages, rank: u32) -> f64 {
        let node = self.nodes[rank as usize];
        let others = self.nodes.iter().filter(|other| **other == node).count() as f64 - 1.0;
        match messages {
            Messages::FromEachToEach => others / self.messages(),
            Messages::InRounds => {
                let is_here = |peer: u32| self.nodes[peer as usize] == node;
                self.exchanged(rank, is_here) / self.messages()
            }
            Messages::WithRoot if rank == self.root => others / self.messages(),
            Messages::WithRoot => {
                let meets_root = self.nodes[self.root as usize] == node;
                f64::from(u8::from(meets_root)) / self.messages()
            }
            Messages::ToNext => {
                let ranks = self.ranks();
                let next = self.nodes[((rank + 1) % ranks) as usize];
                let previous = self.nodes[((rank + ranks - 1) % ranks) as usize];
                f64::from(u8::from(next == node || previous == node))
            }
        }
    }

    /// Returns the share that the links between two ranks carry: the messages of the two.
    fn share_of_pair(&self, messages: Messages, a: u32, b: u32) -> f64 {
        let ranks = self.ranks();
        match messages {
            Messages::FromEachToEach => 1.0 / self.messages(),
            Messages::WithRoot if a == self.root || b == self.root => 1.0 / self.messages(),
            Messages::ToNext if (a + 1) % ranks == b || (b + 1) % ranks == a => 1.0,
            Messages::InRounds if (a ^ b).is_power_of_two() => f64::from(a ^ b) / self.messages(),
            Messages::WithRoot | Messages::ToNext | Messages::InRounds => 0.0,
        }
    }

    /// Returns the share that crosses between `members` and the other ranks: the messages between
    /// the two sides.
    fn share_of_members(&self, messages: Messages, members: &[u32]) -> f64 {
        let inside = members.len() as f64;
        let outside = f64::from(self.ranks()) - inside;
        match messages {
            Messages::FromEachToEach => inside * outside / self.messages(),
            Messages::InRounds => {
                let is_outside = |peer: u32| !members.contains(&peer);
                let sent = members.iter().map(|rank| self.exchanged(*rank, is_outside));
                sent.sum::<f64>() / self.messages()
            }
            Messages::WithRoot => {
                let far_side = if members.contains(&self.root) {
                    outside
                } else {
                    inside
                };
                far_side / self.messages()
            }
            Messages::ToNext => {
                let ranks = self.ranks();
                let leaves = |rank: &&u32| !members.contains(&((**rank + 1) % ranks));
                members.iter().filter(leaves).count() as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(collective: Collective, place: &Place) -> f64 {
        // Two nodes of four.
        let nodes = [0, 0, 0, 0, 1, 1, 1, 1];
        let traffic = Traffic {
            collective,
            root: 0,
            nodes: &nodes,
        };
        traffic.share(place)
    }

    #[test]
    fn a_ring_crosses_each_link_once() {
        let node = Place::Node {
            node: 0,
            members: vec![0, 1, 2, 3],
        };
        for place in [Place::Rank(0), node] {
            assert_eq!(share(Collective::AllReduce, &place), 1.0);
        }
        assert_eq!(share(Collective::AllReduce, &Place::Pair(0, 1)), 0.0);
    }

    #[test]
    fn messages_are_counted() {
        let node = |node: u32| Place::Node {
            node,
            members: (4 * node..4 * node + 4).collect(),
        };
        for (collective, place, expected) in [
            // Each of 4 ranks has a message for each of 4 others, and sends 7 in all.
            (Collective::AllToAll, node(0), 16.0 / 7.0),
            (Collective::AllToAll, Place::Rank(0), 3.0 / 7.0),
            (Collective::AllToAll, Place::Pair(0, 1), 1.0 / 7.0),
            (Collective::Gather, node(0), 4.0 / 7.0),
            (Collective::Gather, Place::Rank(0), 3.0 / 7.0),
            (Collective::Gather, Place::Rank(5), 0.0),
            (Collective::Scatter, Place::Rank(1), 1.0 / 7.0),
            (Collective::SendRecv, node(1), 1.0),
            (Collective::SendRecv, Place::Pair(1, 2), 1.0),
            (Collective::SendRecv, Place::Pair(0, 2), 0.0),
            (Collective::HyperCube, node(0), 16.0 / 7.0),
            (Collective::HyperCube, Place::Rank(0), 3.0 / 7.0),
            (Collective::HyperCube, Place::Pair(0, 2), 2.0 / 7.0),
            (Collective::HyperCube, Place::Pair(1, 2), 0.0),
        ] {
            assert_eq!(share(collective, &place), expected, "{collective} {place}");
        }
    }
}
