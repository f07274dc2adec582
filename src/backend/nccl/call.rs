//! A case as the calls that NCCL needs for it.

use std::ffi::c_int;

use crate::collective::{
    Case, Collective,
    data::{DType, RedOp},
    traffic::PeerFlow,
};

/// Returns NCCL's number of an element type, `ncclDataType_t`.
pub fn dtype_code(dtype: DType) -> c_int {
    match dtype {
        DType::Int8 => 0,
        DType::Uint8 => 1,
        DType::Int32 => 2,
        DType::Uint32 => 3,
        DType::Int64 => 4,
        DType::Uint64 => 5,
        DType::Half => 6,
        DType::Float => 7,
        DType::Double => 8,
        DType::Bfloat16 => 9,
        DType::F8e4m3 => 10,
        DType::F8e5m2 => 11,
    }
}

/// Returns NCCL's number of a reduction, `ncclRedOp_t`; `None` for one that is created per
/// communicator.
pub fn redop_code(redop: RedOp) -> Option<c_int> {
    match redop {
        RedOp::Sum => Some(0),
        RedOp::Prod => Some(1),
        RedOp::Max => Some(2),
        RedOp::Min => Some(3),
        RedOp::Avg => Some(4),
        RedOp::MulSum => None,
    }
}

/// The NCCL call for a case with its arguments, prepared once before many calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedCall {
    pub(super) call: NcclCall,
    /// Elements, as the collective counts them for the library.
    pub(super) count: usize,
    /// Bytes of `count` elements: the distance between the chunks of two consecutive ranks.
    pub(super) chunk: u64,
    pub(super) dtype: c_int,
    /// Bytes of an element.
    pub(super) element: u64,
    /// Rounds of a hypercube.
    pub(super) rounds: u32,
    /// What is sent to and received from each rank, if that differs between ranks.
    pub(super) flows: Vec<PeerFlow>,
}

/// The NCCL function, or the group of sends and receives, that runs a collective. Those named
/// `…ByPeers` are groups for libraries without the collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NcclCall {
    AllReduce { op: c_int },
    AllGather,
    ReduceScatter { op: c_int },
    Broadcast { root: c_int },
    Reduce { op: c_int, root: c_int },
    AllToAll,
    AllToAllByPeers,
    Gather { root: c_int },
    GatherByPeers { root: c_int },
    Scatter { root: c_int },
    ScatterByPeers { root: c_int },
    SendRecv { to: c_int, from: c_int },
    HyperCube,
    AllToAllV,
}

/// The collectives that only newer libraries have: which of them this one has.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateCollectives {
    pub(super) all_to_all: bool,
    pub(super) gather: bool,
    pub(super) scatter: bool,
}

/// The GPU memory that an operation reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Start of what is sent.
    pub send: u64,
    /// Start of what is received.
    pub recv: u64,
}

impl PreparedCall {
    /// Prepares the call of rank `rank` for `case`. `op` is NCCL's number of the reduction, if
    /// there is one.
    pub(super) fn new(
        case: &Case,
        rank: u32,
        ranks: u32,
        has: LateCollectives,
        op: c_int,
    ) -> PreparedCall {
        let root = case.root.unwrap_or(0) as c_int;
        let call = match case.collective {
            Collective::AllReduce => NcclCall::AllReduce { op },
            Collective::AllGather => NcclCall::AllGather,
            Collective::ReduceScatter => NcclCall::ReduceScatter { op },
            Collective::Broadcast => NcclCall::Broadcast { root },
            Collective::Reduce => NcclCall::Reduce { op, root },
            Collective::AllToAll if has.all_to_all => NcclCall::AllToAll,
            Collective::AllToAll => NcclCall::AllToAllByPeers,
            Collective::Gather if has.gather => NcclCall::Gather { root },
            Collective::Gather => NcclCall::GatherByPeers { root },
            Collective::Scatter if has.scatter => NcclCall::Scatter { root },
            Collective::Scatter => NcclCall::ScatterByPeers { root },
            Collective::HyperCube => NcclCall::HyperCube,
            Collective::AllToAllV => NcclCall::AllToAllV,
            Collective::SendRecv => NcclCall::SendRecv {
                to: ((rank + 1) % ranks) as c_int,
                from: ((rank + ranks - 1) % ranks) as c_int,
            },
        };
        let element = case.dtype.size();
        let flows = case.flows(rank.into());
        let rounds = if call == NcclCall::HyperCube {
            ranks.ilog2()
        } else {
            0
        };
        PreparedCall {
            call,
            count: case.counts.param as usize,
            chunk: case.counts.param * element,
            dtype: dtype_code(case.dtype),
            element,
            rounds,
            flows,
        }
    }

    /// Returns the number of groups in the operation. They must not be merged: a round of a
    /// hypercube sends what the one before received.
    pub fn stages(&self) -> u32 {
        if self.call == NcclCall::HyperCube {
            self.rounds.max(1)
        } else {
            1
        }
    }

    /// Returns whether the operation includes a copy on the GPU that is not an NCCL call. The ranks
    /// of a hypercube copy their own chunk themselves.
    pub fn copies(&self) -> bool {
        self.call == NcclCall::HyperCube
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape},
        units::Bytes,
    };

    #[test]
    fn the_codes_are_those_of_nccl_h() {
        assert_eq!(
            DType::ALL.map(dtype_code),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        );
        assert_eq!(
            RedOp::ALL.map(redop_code),
            [Some(0), Some(1), Some(2), Some(3), Some(4), None]
        );
    }

    fn call(
        collective: Collective,
        redop: Option<RedOp>,
        root: Option<u32>,
        rank: u32,
        new: bool,
    ) -> PreparedCall {
        let case = CaseShape {
            collective,
            dtype: DType::Bfloat16,
            redop,
            root,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 4,
        }
        .nearest(Bytes(4096));
        let op = redop.and_then(redop_code).unwrap_or(0);
        let has = LateCollectives {
            all_to_all: new,
            gather: new,
            scatter: new,
        };
        PreparedCall::new(&case, rank, 4, has, op)
    }

    #[test]
    fn each_case_has_its_call() {
        let reduced = call(Collective::AllReduce, Some(RedOp::Avg), None, 0, true);
        assert_eq!(
            reduced,
            PreparedCall {
                call: NcclCall::AllReduce { op: 4 },
                count: 2048,
                chunk: 4096,
                dtype: 9,
                element: 2,
                rounds: 0,
                flows: vec![]
            }
        );
        let rooted = call(Collective::Reduce, Some(RedOp::Min), Some(3), 0, true);
        assert_eq!(rooted.call, NcclCall::Reduce { op: 3, root: 3 });
        let gathered = call(Collective::AllGather, None, None, 1, true);
        assert_eq!(
            gathered,
            PreparedCall {
                call: NcclCall::AllGather,
                count: 512,
                chunk: 1024,
                dtype: 9,
                element: 2,
                rounds: 0,
                flows: vec![]
            }
        );
    }

    #[test]
    fn an_old_library_gets_sends_and_receives() {
        for (collective, root, new, old) in [
            (
                Collective::AllToAll,
                None,
                NcclCall::AllToAll,
                NcclCall::AllToAllByPeers,
            ),
            (
                Collective::Gather,
                Some(2),
                NcclCall::Gather { root: 2 },
                NcclCall::GatherByPeers { root: 2 },
            ),
            (
                Collective::Scatter,
                Some(1),
                NcclCall::Scatter { root: 1 },
                NcclCall::ScatterByPeers { root: 1 },
            ),
        ] {
            assert_eq!(call(collective, None, root, 0, true).call, new);
            assert_eq!(call(collective, None, root, 0, false).call, old);
        }
    }

    #[test]
    fn a_hypercube_counts_its_chunks() {
        let cube = call(Collective::HyperCube, None, None, 1, true);
        let wanted = PreparedCall {
            call: NcclCall::HyperCube,
            count: 512,
            chunk: 1024,
            dtype: 9,
            element: 2,
            rounds: 2,
            flows: vec![],
        };
        assert_eq!((cube.stages(), cube), (2, wanted));
    }

    #[test]
    fn an_alltoallv_has_a_part_for_each_rank() {
        let call = call(Collective::AllToAllV, None, None, 1, true);
        let sent: Vec<_> = call
            .flows
            .iter()
            .map(|flow| (flow.send_offset, flow.send))
            .collect();
        // Of 4096 bytes, by the distance upwards from rank 1: 3, 0, 1 and 2 sixths, each down to 16
        // bytes.
        assert_eq!(
            (call.call, sent),
            (
                NcclCall::AllToAllV,
                vec![(0, 1024), (1024, 0), (1024, 336), (1360, 680)]
            )
        );
    }

    #[test]
    fn sendrecv_goes_round_the_ring() {
        let ring = [0, 1, 2, 3].map(|rank| call(Collective::SendRecv, None, None, rank, true).call);
        let next =
            [(1, 3), (2, 0), (3, 1), (0, 2)].map(|(to, from)| NcclCall::SendRecv { to, from });
        assert_eq!(ring, next);
    }
}
