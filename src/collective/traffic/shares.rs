//! [`TrafficShares`]: a pattern applied to a number of ranks and a size, in elements.

use super::pattern::Traffic;

/// The amounts that ranks exchange, in elements.
#[derive(Clone, Copy, Debug)]
pub struct TrafficShares<'a> {
    /// The pattern.
    pub traffic: &'a Traffic,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Bytes that each rank has to send, if the pattern follows the size.
    pub total: u64,
    /// Bytes per element.
    pub element_size: u64,
}

/// The data that one rank exchanges with another. Offsets and lengths count elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFlow {
    /// Start of the sent part in the send buffer.
    pub send_offset: u64,
    /// Elements sent.
    pub send: u64,
    /// Start of the received part in the receive buffer.
    pub recv_offset: u64,
    /// Elements received.
    pub recv: u64,
}

impl<'a> TrafficShares<'a> {
    /// Returns the shares of a case in which each rank has `chunk` elements per rank to send.
    pub fn new(
        traffic: &'a Traffic,
        chunk: u64,
        ranks: u64,
        element_size: u64,
    ) -> TrafficShares<'a> {
        TrafficShares {
            traffic,
            ranks,
            total: chunk * ranks * element_size,
            element_size,
        }
    }

    /// Returns the elements from one rank to another.
    pub fn elements(&self, from: u64, to: u64) -> u64 {
        self.traffic.bytes(from, to, self.ranks, self.total) / self.element_size
    }

    /// Returns the elements that rank `from` sends to the ranks before `to`: the offset of the part
    /// for `to`.
    pub fn before(&self, from: u64, to: u64) -> u64 {
        (0..to).map(|to| self.elements(from, to)).sum()
    }

    /// Returns the elements that a rank sends.
    pub fn sent(&self, rank: u64) -> u64 {
        self.before(rank, self.ranks)
    }

    /// Returns the elements that a rank receives.
    pub fn received(&self, rank: u64) -> u64 {
        (0..self.ranks).map(|from| self.elements(from, rank)).sum()
    }

    /// Returns the maximum that any rank sends, and the maximum that any rank receives.
    pub fn most(&self) -> (u64, u64) {
        match self.traffic {
            // Every rank has the same distances to the others.
            Traffic::Spread(_) => (self.sent(0), self.sent(0)),
            Traffic::Matrix(_) => {
                let sent = (0..self.ranks).map(|rank| self.sent(rank)).max();
                let received = (0..self.ranks).map(|rank| self.received(rank)).max();
                (sent.unwrap_or(0), received.unwrap_or(0))
            }
        }
    }

    /// Returns what `rank` exchanges with each rank, in rank order, without gaps between the parts.
    pub fn flows(&self, rank: u64) -> Vec<PeerFlow> {
        let mut flows = Vec::new();
        let (mut send_offset, mut recv_offset) = (0, 0);
        for peer in 0..self.ranks {
            let flow = PeerFlow {
                send_offset,
                send: self.elements(rank, peer),
                recv_offset,
                recv: self.elements(peer, rank),
            };
            send_offset += flow.send;
            recv_offset += flow.recv;
            flows.push(flow);
        }
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::{super::pattern::MATRIX_FILE, *};

    #[test]
    fn what_one_sends_another_receives() {
        let env = |name: &str| (name == MATRIX_FILE).then(|| "x".to_owned());
        let text = "0 16 32\n160 0 0\n48 64 0";
        let matrix = Traffic::from_env(&env, &|_| Ok(text.to_owned())).expect("a matrix");
        for traffic in [Traffic::Spread(0.3), matrix] {
            let shares = TrafficShares {
                traffic: &traffic,
                ranks: 3,
                total: 4096,
                element_size: 4,
            };
            let all_sent: u64 = (0..3).map(|rank| shares.sent(rank)).sum();
            let all_received: u64 = (0..3).map(|rank| shares.received(rank)).sum();
            assert_eq!(all_sent, all_received);
            let (sent, received) = shares.most();
            assert!(
                (0..3).all(|rank| shares.sent(rank) <= sent && shares.received(rank) <= received)
            );
        }
    }
}
