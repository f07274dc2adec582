//! A communicator, and the operations that are enqueued on it.

#![expect(unsafe_code, reason = "NCCL takes addresses of GPU memory")]

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ffi::c_int,
    sync::Arc,
};

use super::call::{Addresses, LateCollectives, NcclCall, PreparedCall, dtype_code, redop_code};
use crate::{
    collective::{
        Case,
        data::{self, DType},
        hypercube,
    },
    native::{
        cuda,
        nccl::{CommConfig, CommState, Nccl, RawComm, RawStream, UniqueId},
    },
    world::watch,
};

/// This rank's handle of a communicator.
///
/// [`Comm::close`] destroys it. Dropping it does not, because that can wait for other ranks; the
/// communicator is then left to the end of the process.
pub struct Comm {
    nccl: Arc<Nccl>,
    raw: RawComm,
    rank: u32,
    ranks: u32,
    /// The mulsum operations created so far, by the number of their type. Each lives as long as the
    /// communicator.
    mulsums: RefCell<BTreeMap<c_int, c_int>>,
    /// Whether the watch may ask for its errors.
    is_observed: Cell<bool>,
}

/// A communicator as the thread of the watch sees it. It is dropped before the communicator is
/// closed.
struct CommObserver {
    nccl: Arc<Nccl>,
    raw: RawComm,
}

// SAFETY: its only call, ncclCommGetAsyncError, is one that NCCL allows beside the calls of another
// thread.
unsafe impl Send for CommObserver {}

impl CommObserver {
    fn state(&self) -> anyhow::Result<CommState> {
        // SAFETY: `Comm::close` drops all observers first, and waits for one that is here.
        unsafe { self.nccl.comm_state(self.raw) }
    }
}

// SAFETY: NCCL lets any thread use a communicator, one at a time; this value has one owner.
unsafe impl Send for Comm {}

impl Comm {
    /// Joins the communicator of `id`, which has `ranks` ranks, as each of `own_ranks`.
    /// `select_gpu` makes the GPU of one of them, by its index in `own_ranks`, current on this
    /// thread. Waits for all ranks.
    ///
    /// # Errors
    /// Returns an error if NCCL or `select_gpu` fails.
    pub fn init(
        nccl: &Arc<Nccl>,
        id: &UniqueId,
        own_ranks: &[u32],
        ranks: u32,
        config: CommConfig,
        select_gpu: &dyn Fn(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Comm>> {
        let numbers: Vec<c_int> = own_ranks.iter().map(|rank| *rank as c_int).collect();
        let handles = nccl.comm_init(id, &numbers, ranks as c_int, config, select_gpu)?;
        let mut comms = Vec::with_capacity(handles.len());
        for (raw, &rank) in handles.into_iter().zip(own_ranks) {
            comms.push(Comm {
                nccl: Arc::clone(nccl),
                raw,
                rank,
                ranks,
                mulsums: RefCell::default(),
                is_observed: Cell::default(),
            });
        }
        Ok(comms)
    }

    /// Returns its rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Lets the watch ask NCCL for errors of `comms`, until the first of them is closed.
    pub(super) fn let_watch_ask<'a>(comms: impl Iterator<Item = &'a Comm>) {
        let mut observers = Vec::new();
        for comm in comms {
            comm.is_observed.set(true);
            observers.push(CommObserver {
                nccl: Arc::clone(&comm.nccl),
                raw: comm.raw,
            });
        }
        watch::set_evidence(Box::new(move || {
            // One that cannot be asked has nothing to say.
            let states = observers
                .iter()
                .filter_map(|observer| observer.state().ok());
            let first = states.min_by_key(|state| !state.has_error)?;
            Some(first.clause)
        }));
    }

    /// Returns NCCL's handle, for calls that are not part of a case.
    pub fn raw(&self) -> RawComm {
        self.raw
    }

    /// Destroys the communicator. All ranks call it, after the last operation has ended everywhere.
    /// As in nccl-tests, it is not finalized first: destroying includes that, and several ranks of
    /// one thread would wait for each other.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub fn close(self) -> anyhow::Result<()> {
        if self.is_observed.get() {
            watch::forget_evidence();
        }
        // SAFETY: the communicator is this value's own, and nothing uses it after this.
        unsafe {
            for &op in self.mulsums.borrow().values() {
                self.nccl.redop_destroy(op, self.raw)?;
            }
            self.nccl.comm_destroy(self.raw)
        }
    }

    /// Checks for errors outside of calls: at a peer, in the network, or in a thread of NCCL.
    ///
    /// # Errors
    /// Returns such an error if there is one.
    #[inline]
    pub fn check(&self) -> anyhow::Result<()> {
        // SAFETY: the communicator lives as long as this value.
        unsafe { self.nccl.comm_async_error(self.raw) }
    }

    /// Prepares the call for `case`.
    ///
    /// # Errors
    /// Returns an error if NCCL cannot create the reduction that the case needs.
    pub fn call_for(&self, case: &Case) -> anyhow::Result<PreparedCall> {
        let op = match case.redop {
            None => 0,
            Some(redop) => match redop_code(redop) {
                Some(built_in) => built_in,
                None => self.mulsum(case.dtype)?,
            },
        };
        let has = LateCollectives {
            all_to_all: self.nccl.has_all_to_all(),
            gather: self.nccl.has_gather(),
            scatter: self.nccl.has_scatter(),
        };
        Ok(PreparedCall::new(case, self.rank, self.ranks, has, op))
    }

    /// Returns NCCL's number of the mulsum of `dtype`, which is created on first use.
    fn mulsum(&self, dtype: DType) -> anyhow::Result<c_int> {
        let code = dtype_code(dtype);
        if let Some(&op) = self.mulsums.borrow().get(&code) {
            return Ok(op);
        }
        let scalar = data::scalar(dtype, self.rank.into());
        // SAFETY: the communicator lives as long as this value.
        let op = unsafe { self.nccl.redop_create_premulsum(&scalar, code, self.raw)? };
        self.mulsums.borrow_mut().insert(code, op);
        Ok(op)
    }

    /// Enqueues a stage of one operation in `stream`. There are [`PreparedCall::stages`] of them,
    /// in order.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    ///
    /// # Safety
    /// Both addresses are memory of the communicator's GPU that holds what the case of `prepared`
    /// reads and writes, and `stream` is a stream of that GPU; all stay valid until the operation
    /// has ended.
    #[inline]
    pub unsafe fn enqueue(
        &self,
        prepared: &PreparedCall,
        stage: u32,
        addresses: Addresses,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let (nccl, comm) = (&*self.nccl, self.raw);
        let Addresses { send, recv } = addresses;
        let &PreparedCall { count, dtype, .. } = prepared;
        // SAFETY: the communicator lives as long as this value and is used by one thread, because
        // it is not `Sync`; the caller vouches for the memory and the stream.
        unsafe {
            match prepared.call {
                NcclCall::AllReduce { op } => {
                    nccl.all_reduce(send, recv, count, dtype, op, comm, stream)
                }
                NcclCall::AllGather => nccl.all_gather(send, recv, count, dtype, comm, stream),
                NcclCall::ReduceScatter { op } => {
                    nccl.reduce_scatter(send, recv, count, dtype, op, comm, stream)
                }
                NcclCall::Broadcast { root } => {
                    nccl.broadcast(send, recv, count, dtype, root, comm, stream)
                }
                NcclCall::Reduce { op, root } => {
                    nccl.reduce(send, recv, count, dtype, op, root, comm, stream)
                }
                NcclCall::AllToAll => nccl.all_to_all(send, recv, count, dtype, comm, stream),
                NcclCall::Gather { root } => {
                    nccl.gather(send, recv, count, dtype, root, comm, stream)
                }
                NcclCall::Scatter { root } => {
                    nccl.scatter(send, recv, count, dtype, root, comm, stream)
                }
                NcclCall::HyperCube => self.hyper_cube(prepared, stage, addresses, stream),
                NcclCall::SendRecv { .. }
                | NcclCall::AllToAllV
                | NcclCall::AllToAllByPeers
                | NcclCall::GatherByPeers { .. }
                | NcclCall::ScatterByPeers { .. } => {
                    nccl.grouped(true, || self.messages(prepared, addresses, stream))
                }
            }
        }
    }

    /// Enqueues a round of a hypercube, which is a group of its own.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`].
    unsafe fn hyper_cube(
        &self,
        prepared: &PreparedCall,
        round: u32,
        addresses: Addresses,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let Addresses { send, recv } = addresses;
        let &PreparedCall { count, chunk, .. } = prepared;
        let own_chunk = recv + chunk * u64::from(self.rank);
        if round == 0 && own_chunk != send {
            // SAFETY: as in `enqueue`; out of place the two buffers are separate.
            unsafe { cuda::driver()?.copy(own_chunk, send, chunk as usize, stream)? };
        }
        let mut rounds = hypercube::rounds(self.rank.into(), self.ranks.into());
        let Some(round) = rounds.nth(round as usize) else {
            return Ok(());
        };
        let messages = Messages {
            comm: self,
            count: count * round.chunks as usize,
            dtype: prepared.dtype,
            stream,
        };
        let peer = round.peer as c_int;
        self.nccl.grouped(true, || {
            // SAFETY: as in `enqueue`; the receive buffer has a chunk for each rank.
            unsafe {
                messages.send(recv + chunk * round.from, peer)?;
                messages.recv(recv + chunk * round.to, peer)
            }
        })
    }

    /// Enqueues the sends and receives of an operation that consists of them.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`].
    unsafe fn messages(
        &self,
        prepared: &PreparedCall,
        addresses: Addresses,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let Addresses { send, recv } = addresses;
        let rank = self.rank as c_int;
        let chunks = (0..self.ranks as c_int).map(|peer| (peer, prepared.chunk * peer as u64));
        let messages = Messages {
            comm: self,
            count: prepared.count,
            dtype: prepared.dtype,
            stream,
        };
        // SAFETY: as in `enqueue`; a buffer with parts for several ranks has a chunk for each.
        unsafe {
            match prepared.call {
                NcclCall::SendRecv { to, from } => {
                    messages.send(send, to)?;
                    messages.recv(recv, from)?;
                }
                NcclCall::AllToAllByPeers => {
                    for (peer, offset) in chunks {
                        messages.send(send + offset, peer)?;
                        messages.recv(recv + offset, peer)?;
                    }
                }
                NcclCall::AllToAllV => self.flows(prepared, addresses, stream)?,
                NcclCall::GatherByPeers { root } => {
                    messages.send(send, root)?;
                    if rank == root {
                        for (peer, offset) in chunks {
                            messages.recv(recv + offset, peer)?;
                        }
                    }
                }
                NcclCall::ScatterByPeers { root } => {
                    if rank == root {
                        for (peer, offset) in chunks {
                            messages.send(send + offset, peer)?;
                        }
                    }
                    messages.recv(recv, root)?;
                }
                // NCCL has a call for each of these, or `hyper_cube` does their rounds.
                NcclCall::AllReduce { .. }
                | NcclCall::AllGather
                | NcclCall::ReduceScatter { .. }
                | NcclCall::Broadcast { .. }
                | NcclCall::Reduce { .. }
                | NcclCall::AllToAll
                | NcclCall::Gather { .. }
                | NcclCall::Scatter { .. }
                | NcclCall::HyperCube => {}
            }
        }
        Ok(())
    }

    /// Enqueues sends and receives of parts that differ in size. As in nccl-tests, empty ones are
    /// left out.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`].
    unsafe fn flows(
        &self,
        prepared: &PreparedCall,
        addresses: Addresses,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        let &PreparedCall { dtype, element, .. } = prepared;
        for (peer, flow) in (0..).zip(&prepared.flows) {
            let from = addresses.send + flow.send_offset * element;
            let to = addresses.recv + flow.recv_offset * element;
            let (sent, received) = (flow.send as usize, flow.recv as usize);
            // SAFETY: as in `enqueue`; the flows of a case lie inside its buffers.
            unsafe {
                if sent > 0 {
                    self.nccl.send(from, sent, dtype, peer, self.raw, stream)?;
                }
                if received > 0 {
                    self.nccl
                        .recv(to, received, dtype, peer, self.raw, stream)?;
                }
            }
        }
        Ok(())
    }
}

/// Sends and receives that differ only in address and peer.
struct Messages<'a> {
    comm: &'a Comm,
    /// Elements of each message.
    count: usize,
    dtype: c_int,
    stream: RawStream,
}

impl Messages<'_> {
    /// Sends from `address`.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`]: a message at `address` lies in the buffer.
    unsafe fn send(&self, address: u64, peer: c_int) -> anyhow::Result<()> {
        let Comm { nccl, raw, .. } = self.comm;
        // SAFETY: by this function's contract.
        unsafe { nccl.send(address, self.count, self.dtype, peer, *raw, self.stream) }
    }

    /// Receives to `address`.
    ///
    /// # Safety
    /// As for [`Comm::enqueue`]: a message at `address` lies in the buffer.
    unsafe fn recv(&self, address: u64, peer: c_int) -> anyhow::Result<()> {
        let Comm { nccl, raw, .. } = self.comm;
        // SAFETY: by this function's contract.
        unsafe { nccl.recv(address, self.count, self.dtype, peer, *raw, self.stream) }
    }
}
