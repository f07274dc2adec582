//! A communicator, and a case as the calls that NCCL wants for it.

#![expect(unsafe_code, reason = "NCCL takes addresses of GPU memory")]

use std::{cell::RefCell, collections::BTreeMap, ffi::c_int, sync::Arc};

use crate::{
    collective::{
        Case, Collective,
        data::{self, DType, RedOp},
        hypercube,
        traffic::{self, PeerFlow},
    },
    native::{
        cuda,
        nccl::{CommConfig, Nccl, RawComm, RawStream, UniqueId},
    },
};

/// NCCL's number of an element type, `ncclDataType_t`.
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

/// NCCL's number of a reduction, `ncclRedOp_t`; `None` for one that is made for a communicator.
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

/// What NCCL calls for a case, worked out once before many calls of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    kind: ElementEncoding,
    /// Elements, as the collective counts them for the library.
    count: usize,
    /// Bytes of `count` elements: from one rank's chunk to the next one's.
    chunk: u64,
    dtype: c_int,
    /// Bytes of an element.
    element: u64,
    /// Rounds of a hypercube.
    rounds: u32,
    /// What goes to and comes from each rank, where that is not the same for all.
    flows: Vec<PeerFlow>,
}

/// Which functions. Those named `…ByPeers` are groups of sends and receives, for libraries without the collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementEncoding {
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

/// Which collectives a library has of its own, of those that came late.
#[derive(Clone, Copy, Debug)]
struct Has {
    all_to_all: bool,
    gather: bool,
    scatter: bool,
}

impl Call {
    /// `op` is NCCL's number of the reduction, where there is one.
    fn of(case: &Case, rank: u32, ranks: u32, has: Has, op: c_int) -> Call {
        let root = case.root.unwrap_or(0) as c_int;
        let kind = match case.collective {
            Collective::AllReduce => ElementEncoding::AllReduce { op },
            Collective::AllGather => ElementEncoding::AllGather,
            Collective::ReduceScatter => ElementEncoding::ReduceScatter { op },
            Collective::Broadcast => ElementEncoding::Broadcast { root },
            Collective::Reduce => ElementEncoding::Reduce { op, root },
            Collective::AllToAll if has.all_to_all => ElementEncoding::AllToAll,
            Collective::AllToAll => ElementEncoding::AllToAllByPeers,
            Collective::Gather if has.gather => ElementEncoding::Gather { root },
            Collective::Gather => ElementEncoding::GatherByPeers { root },
            Collective::Scatter if has.scatter => ElementEncoding::Scatter { root },
            Collective::Scatter => ElementEncoding::ScatterByPeers { root },
            Collective::HyperCube => ElementEncoding::HyperCube,
            Collective::AllToAllV => ElementEncoding::AllToAllV,
            Collective::SendRecv => ElementEncoding::SendRecv {
                to: ((rank + 1) % ranks) as c_int,
                from: ((rank + ranks - 1) % ranks) as c_int,
            },
        };
        let element = case.dtype.size();
        let flows = if kind == ElementEncoding::AllToAllV {
            traffic::flows(case, rank.into())
        } else {
            Vec::new()
        };
        let (count, chunk) = (case.counts.param as usize, case.counts.param * element);
        let rounds = if kind == ElementEncoding::HyperCube {
            ranks.ilog2()
        } else {
            0
        };
        Call {
            kind,
            count,
            chunk,
            dtype: dtype_code(case.dtype),
            element,
            rounds,
            flows,
        }
    }
}

impl Call {
    /// The groups that it is made of, which must not become one: what a round of a hypercube receives, the next one sends.
    pub fn stages(&self) -> u32 {
        if self.kind == ElementEncoding::HyperCube {
            self.rounds.max(1)
        } else {
            1
        }
    }

    /// Is a copy on the GPU a part of it, which is no call of NCCL's? A hypercube's ranks take their own chunk themselves.
    pub fn copies(&self) -> bool {
        self.kind == ElementEncoding::HyperCube
    }
}

/// This rank's end of a communicator.
///
/// [`Comm::close`] ends it. Dropping it does not, because that can wait for other ranks; the
/// communicator is then left to the end of the process.
pub struct Comm {
    nccl: Arc<Nccl>,
    raw: RawComm,
    rank: u32,
    ranks: u32,
    /// The mulsums made so far, NCCL's numbers by the number of their type: each lives as long as the communicator.
    scaled: RefCell<BTreeMap<c_int, c_int>>,
}

// SAFETY: NCCL lets any thread use a communicator, one at a time; this value has one owner.
unsafe impl Send for Comm {}

impl Comm {
    /// Joins the communicator of `id`, which has `ranks` ranks, as each of `mine`; `choose` makes the GPU of one of them, by
    /// its place in `mine`, this thread's. Waits for all ranks.
    ///
    /// # Errors
    /// Where NCCL fails.
    pub fn init(
        nccl: &Arc<Nccl>,
        id: &UniqueId,
        mine: &[u32],
        ranks: u32,
        settings: CommConfig,
        choose: &dyn Fn(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Comm>> {
        let numbers: Vec<c_int> = mine.iter().map(|rank| *rank as c_int).collect();
        let raw = nccl.comm_init(id, &numbers, ranks as c_int, settings, choose)?;
        let comm = |(raw, &rank): (RawComm, &u32)| Comm {
            nccl: Arc::clone(nccl),
            raw,
            rank,
            ranks,
            scaled: RefCell::default(),
        };
        Ok(raw.into_iter().zip(mine).map(comm).collect())
    }

    /// Its rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The handle, for calls that no case makes.
    pub fn raw(&self) -> RawComm {
        self.raw
    }

    /// Ends the communicator in good order: all ranks call it, after the last operation ended everywhere. It is not finalized
    /// first, as in nccl-tests: that is part of it, and of several ranks of a thread each would wait for the others.
    ///
    /// # Errors
    /// Where NCCL fails.
    pub fn close(self) -> anyhow::Result<()> {
        // SAFETY: the communicator is this value's own, and nothing uses it after this.
        unsafe {
            for &op in self.scaled.borrow().values() {
                self.nccl.redop_destroy(op, self.raw)?;
            }
            self.nccl.comm_destroy(self.raw)
        }
    }

    /// Fails where something went wrong behind the calls: at a peer, in the network, in a thread of NCCL.
    ///
    /// # Errors
    /// That.
    #[inline]
    pub fn check(&self) -> anyhow::Result<()> {
        // SAFETY: the communicator lives as long as this value.
        unsafe { self.nccl.comm_async_error(self.raw) }
    }

    /// The calls for `case`.
    ///
    /// # Errors
    /// Where NCCL does not make the operation that the case needs.
    pub fn call(&self, case: &Case) -> anyhow::Result<Call> {
        let op = match case.redop.map(redop_code) {
            None => 0,
            Some(Some(built_in)) => built_in,
            Some(None) => self.mulsum(case.dtype)?,
        };
        let has = Has {
            all_to_all: self.nccl.has_all_to_all(),
            gather: self.nccl.has_gather(),
            scatter: self.nccl.has_scatter(),
        };
        Ok(Call::of(case, self.rank, self.ranks, has, op))
    }

    /// NCCL's number of the mulsum of `dtype`, which is made when it is first asked for.
    fn mulsum(&self, dtype: DType) -> anyhow::Result<c_int> {
        let code = dtype_code(dtype);
        if let Some(&made) = self.scaled.borrow().get(&code) {
            return Ok(made);
        }
        // SAFETY: the communicator lives as long as this value.
        let made = unsafe {
            self.nccl.redop_create_premulsum(
                &data::scalar(dtype, self.rank.into()),
                code,
                self.raw,
            )?
        };
        self.scaled.borrow_mut().insert(code, made);
        Ok(made)
    }

    /// Puts a stage of one operation into `stream`; they are [`Call::stages`] many, and come in order.
    ///
    /// # Errors
    /// Where NCCL fails.
    ///
    /// # Safety
    /// `send` and `recv` are memory of the communicator's GPU with what the case of `call` reads and writes, and
    /// `stream` is a stream of that GPU; all stay until the operation has ended.
    #[inline]
    pub unsafe fn enqueue(
        &self,
        call: &Call,
        stage: u32,
        send: u64,
        recv: u64,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let (nccl, comm, &Call { count, dtype, .. }) = (&*self.nccl, self.raw, call);
        // SAFETY: the communicator lives as long as this value and is used by one thread, for it is not `Sync`; the
        // caller vouches for the memory and the stream.
        unsafe {
            match call.kind {
                ElementEncoding::AllReduce { op } => {
                    nccl.all_reduce(send, recv, count, dtype, op, comm, stream)
                }
                ElementEncoding::AllGather => {
                    nccl.all_gather(send, recv, count, dtype, comm, stream)
                }
                ElementEncoding::ReduceScatter { op } => {
                    nccl.reduce_scatter(send, recv, count, dtype, op, comm, stream)
                }
                ElementEncoding::Broadcast { root } => {
                    nccl.broadcast(send, recv, count, dtype, root, comm, stream)
                }
                ElementEncoding::Reduce { op, root } => {
                    nccl.reduce(send, recv, count, dtype, op, root, comm, stream)
                }
                ElementEncoding::AllToAll => {
                    nccl.all_to_all(send, recv, count, dtype, comm, stream)
                }
                ElementEncoding::Gather { root } => {
                    nccl.gather(send, recv, count, dtype, root, comm, stream)
                }
                ElementEncoding::Scatter { root } => {
                    nccl.scatter(send, recv, count, dtype, root, comm, stream)
                }
                ElementEncoding::HyperCube => self.hyper_cube(call, stage, send, recv, stream),
                ElementEncoding::SendRecv { .. }
                | ElementEncoding::AllToAllV
                | ElementEncoding::AllToAllByPeers
                | ElementEncoding::GatherByPeers { .. }
                | ElementEncoding::ScatterByPeers { .. } => {
                    nccl.grouped(true, || self.messages(call, send, recv, stream))
                }
            }
        }
    }

    /// A round of a hypercube, a group of its own.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`].
    unsafe fn hyper_cube(
        &self,
        call: &Call,
        round: u32,
        send: u64,
        recv: u64,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let &Call {
            count,
            chunk,
            dtype,
            ..
        } = call;
        let own = recv + chunk * u64::from(self.rank);
        if round == 0 && own != send {
            // SAFETY: as in `enqueue`; out of place the two buffers are apart.
            unsafe { cuda::driver()?.copy(own, send, chunk as usize, stream)? };
        }
        let rounds = hypercube::rounds(self.rank.into(), self.ranks.into());
        let Some(round) = rounds.into_iter().nth(round as usize) else {
            return Ok(());
        };
        let (peer, many) = (round.peer as c_int, count * round.chunks as usize);
        self.nccl.grouped(true, || {
            // SAFETY: as in `enqueue`; the receive buffer has a chunk for each rank.
            unsafe {
                self.nccl.send(
                    recv + chunk * round.from,
                    many,
                    dtype,
                    peer,
                    self.raw,
                    stream,
                )?;
                self.nccl
                    .recv(recv + chunk * round.to, many, dtype, peer, self.raw, stream)
            }
        })
    }

    /// The sends and receives of an operation that is made of them.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`].
    unsafe fn messages(
        &self,
        call: &Call,
        send: u64,
        recv: u64,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let Call {
            kind,
            count,
            chunk,
            dtype,
            ..
        } = *call;
        let (me, all) = (self.rank as c_int, 0..self.ranks as c_int);
        // SAFETY: as in `enqueue`; a chunk for each rank is what the case has in such a buffer.
        let put =
            |at: u64, to: c_int| unsafe { self.nccl.send(at, count, dtype, to, self.raw, stream) };
        // SAFETY: likewise.
        let get = |at: u64, from: c_int| unsafe {
            self.nccl.recv(at, count, dtype, from, self.raw, stream)
        };
        let part = |base: u64, peer: c_int| base + chunk * peer as u64;
        match kind {
            ElementEncoding::SendRecv { to, from } => {
                put(send, to)?;
                get(recv, from)
            }
            ElementEncoding::AllToAllByPeers => all.into_iter().try_for_each(|peer| {
                put(part(send, peer), peer)?;
                get(part(recv, peer), peer)
            }),
            // SAFETY: as in `enqueue`.
            ElementEncoding::AllToAllV => unsafe { self.flows(call, send, recv, stream) },
            ElementEncoding::GatherByPeers { root } => {
                put(send, root)?;
                if me == root {
                    all.into_iter()
                        .try_for_each(|peer| get(part(recv, peer), peer))
                } else {
                    Ok(())
                }
            }
            ElementEncoding::ScatterByPeers { root } => {
                if me == root {
                    all.into_iter()
                        .try_for_each(|peer| put(part(send, peer), peer))?;
                }
                get(recv, root)
            }
            _ => Ok(()),
        }
    }
}

impl Comm {
    /// The sends and receives of parts that differ in size; empty ones are left out, as in nccl-tests.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`].
    unsafe fn flows(
        &self,
        call: &Call,
        send: u64,
        recv: u64,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let Call { dtype, element, .. } = *call;
        for (peer, flow) in (0..).zip(&call.flows) {
            let (from, to) = (
                send + flow.send_offset * element,
                recv + flow.recv_offset * element,
            );
            // SAFETY: as in `enqueue`; the flows of a case lie inside its buffers.
            unsafe {
                if flow.send > 0 {
                    self.nccl
                        .send(from, flow.send as usize, dtype, peer, self.raw, stream)?;
                }
                if flow.recv > 0 {
                    self.nccl
                        .recv(to, flow.recv as usize, dtype, peer, self.raw, stream)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{collective::BufferMode, units::Bytes};

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
    ) -> Call {
        let case = Case::new(
            collective,
            Bytes(4096),
            DType::Bfloat16,
            redop,
            root,
            BufferMode::OutOfPlace,
            4,
        );
        let op = redop.and_then(redop_code).unwrap_or(0);
        Call::of(
            &case,
            rank,
            4,
            Has {
                all_to_all: new,
                gather: new,
                scatter: new,
            },
            op,
        )
    }

    #[test]
    fn each_case_has_its_call() {
        let reduced = call(Collective::AllReduce, Some(RedOp::Avg), None, 0, true);
        assert_eq!(
            reduced,
            Call {
                kind: ElementEncoding::AllReduce { op: 4 },
                count: 2048,
                chunk: 4096,
                dtype: 9,
                element: 2,
                rounds: 0,
                flows: vec![]
            }
        );
        let rooted = call(Collective::Reduce, Some(RedOp::Min), Some(3), 0, true);
        assert_eq!(rooted.kind, ElementEncoding::Reduce { op: 3, root: 3 });
        let gathered = call(Collective::AllGather, None, None, 1, true);
        assert_eq!(
            gathered,
            Call {
                kind: ElementEncoding::AllGather,
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
                ElementEncoding::AllToAll,
                ElementEncoding::AllToAllByPeers,
            ),
            (
                Collective::Gather,
                Some(2),
                ElementEncoding::Gather { root: 2 },
                ElementEncoding::GatherByPeers { root: 2 },
            ),
            (
                Collective::Scatter,
                Some(1),
                ElementEncoding::Scatter { root: 1 },
                ElementEncoding::ScatterByPeers { root: 1 },
            ),
        ] {
            assert_eq!(call(collective, None, root, 0, true).kind, new);
            assert_eq!(call(collective, None, root, 0, false).kind, old);
        }
    }

    #[test]
    fn a_hypercube_counts_its_chunks() {
        let cube = call(Collective::HyperCube, None, None, 1, true);
        let wanted = Call {
            kind: ElementEncoding::HyperCube,
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
        // Of 4096 bytes, by the distance upwards from rank 1: 3, 0, 1 and 2 sixths, each down to 16 bytes.
        assert_eq!(
            (call.kind, sent),
            (
                ElementEncoding::AllToAllV,
                vec![(0, 1024), (1024, 0), (1024, 336), (1360, 680)]
            )
        );
    }

    #[test]
    fn sendrecv_goes_round_the_ring() {
        let ring = [0, 1, 2, 3].map(|rank| call(Collective::SendRecv, None, None, rank, true).kind);
        let next = [(1, 3), (2, 0), (3, 1), (0, 2)]
            .map(|(to, from)| ElementEncoding::SendRecv { to, from });
        assert_eq!(ring, next);
    }
}
