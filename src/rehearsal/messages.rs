//! The messages of collectives that are made of sends and receives.

use crate::collective::{Case, Collective, hypercube};

/// What one rank sends to another in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The sender.
    pub(super) from: u64,
    /// The receiver.
    pub(super) to: u64,
    /// The number of bytes. NCCL connects even for 0 bytes.
    pub(super) bytes: u64,
}

/// Returns the messages between different ranks; none for a collective that is not made of sends
/// and receives.
pub(super) fn messages(case: &Case) -> Vec<Message> {
    let ranks = case.ranks;
    let root = case.root.map_or(0, u64::from);
    let chunk = case.counts.param * case.dtype.size();
    let mut messages = Vec::new();
    let mut add = |from: u64, to: u64, bytes: u64| {
        if from != to {
            messages.push(Message { from, to, bytes });
        }
    };
    for rank in 0..ranks {
        match case.collective {
            Collective::AllToAll => (0..ranks).for_each(|to| add(rank, to, chunk)),
            Collective::AllToAllV => {
                // Empty parts are left out, as in nccl-tests.
                let flows = (0..).zip(case.flows(rank));
                for (to, flow) in flows.filter(|(_, flow)| flow.send > 0) {
                    add(rank, to, flow.send * case.dtype.size());
                }
            }
            Collective::Gather => add(rank, root, chunk),
            Collective::Scatter => add(root, rank, chunk),
            Collective::SendRecv => add(rank, (rank + 1) % ranks, chunk),
            Collective::HyperCube => {
                for round in hypercube::rounds(rank, ranks) {
                    add(rank, round.peer, round.chunks * chunk);
                }
            }
            Collective::AllReduce
            | Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Broadcast
            | Collective::Reduce => {}
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, data::DType},
        units::Bytes,
    };

    fn sent(collective: Collective) -> Vec<(u64, u64, u64)> {
        sent_of(collective, 4096)
    }

    fn sent_of(collective: Collective, size: u64) -> Vec<(u64, u64, u64)> {
        let shape = CaseShape {
            collective,
            dtype: DType::Float,
            redop: None,
            root: collective.spec().rooted.then_some(1),
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 4,
        };
        let messages = messages(&shape.nearest(Bytes(size)));
        messages
            .iter()
            .map(|one| (one.from, one.to, one.bytes))
            .collect()
    }

    #[test]
    fn empty_parts_of_an_alltoallv_are_not_sent() {
        // In proportion to the distance: 10, 21 and 32 of 64 bytes, in multiples of 16.
        assert_eq!(
            sent_of(Collective::AllToAllV, 64)[..4],
            [(0, 2, 16), (0, 3, 32), (1, 0, 32), (1, 3, 16)]
        );
        assert_eq!(sent_of(Collective::AllToAllV, 64).len(), 8);
        assert_eq!(sent_of(Collective::AllToAll, 0).len(), 12);
    }

    #[test]
    fn messages_are_those_of_the_collectives() {
        assert_eq!(sent(Collective::AllToAll).len(), 12);
        assert_eq!(sent(Collective::AllToAll)[0], (0, 1, 1024));
        assert_eq!(
            sent(Collective::Gather),
            [(0, 1, 1024), (2, 1, 1024), (3, 1, 1024)]
        );
        assert_eq!(
            sent(Collective::Scatter),
            [(1, 0, 1024), (1, 2, 1024), (1, 3, 1024)]
        );
        assert_eq!(
            sent(Collective::SendRecv),
            [(0, 1, 4096), (1, 2, 4096), (2, 3, 4096), (3, 0, 4096)]
        );
        assert_eq!(
            sent(Collective::HyperCube)[..4],
            [(0, 1, 1024), (0, 2, 2048), (1, 0, 1024), (1, 3, 2048)]
        );
        // In proportion to the distance: 1, 2 and 3 of 6 parts, in multiples of 16 bytes.
        assert_eq!(
            sent(Collective::AllToAllV)[..3],
            [(0, 1, 672), (0, 2, 1360), (0, 3, 2048)]
        );
        assert_eq!(sent(Collective::AllReduce), []);
    }
}
