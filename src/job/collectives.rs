//! The collectives of a job. Buffers have the lengths that NCCL gives them, in place as well as out
//! of place.

use super::{pending::Pending, ranks::Job};
use crate::{
    backend::{Element, SliceOperation},
    collective::{Collective, data::RedOp},
};

/// Collectives on slices of host memory. If one of the two buffers has a chunk per rank, in rank
/// order, it is as many times longer than the other as there are ranks. In place there is only the
/// longer one, and what would be the shorter one is this rank's chunk of it. A buffer that a rank
/// does not use, such as the receive buffer of a reduce on a rank that is not the root, may be
/// empty out of place.
impl Job {
    /// Gives every rank the reduction of all `send`.
    ///
    /// # Errors
    /// Returns an error if a buffer has the wrong length, if there is no such root, or if MPI does
    /// not have the reduction.
    pub fn all_reduce<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        redop: RedOp,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllReduce).reducing(redop);
        self.run(what, send, recv)
    }

    /// Runs [`Job::all_reduce`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn all_reduce_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        redop: RedOp,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllReduce).reducing(redop);
        self.run_in_place(what, buffer)
    }

    /// Gives every rank the `send` of all ranks, a chunk from each.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn all_gather<T: Element>(&self, send: &[T], recv: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllGather);
        self.run(what, send, recv)
    }

    /// Runs [`Job::all_gather`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllGather);
        self.run_in_place(what, buffer)
    }

    /// Reduces all `send`, and gives each rank its chunk of the result.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn reduce_scatter<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        redop: RedOp,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::ReduceScatter).reducing(redop);
        self.run(what, send, recv)
    }

    /// Runs [`Job::reduce_scatter`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn reduce_scatter_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        redop: RedOp,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::ReduceScatter).reducing(redop);
        self.run_in_place(what, buffer)
    }

    /// Gives every rank the `send` of the root.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn broadcast<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        root: u32,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Broadcast).with_root(root);
        self.run(what, send, recv)
    }

    /// Runs [`Job::broadcast`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn broadcast_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        root: u32,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Broadcast).with_root(root);
        self.run_in_place(what, buffer)
    }

    /// Gives the root the reduction of all `send`.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn reduce<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        redop: RedOp,
        root: u32,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Reduce)
            .reducing(redop)
            .with_root(root);
        self.run(what, send, recv)
    }

    /// Runs [`Job::reduce`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn reduce_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        redop: RedOp,
        root: u32,
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Reduce)
            .reducing(redop)
            .with_root(root);
        self.run_in_place(what, buffer)
    }

    /// Gives each rank its chunk of the `send` of every rank, in rank order.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn alltoall<T: Element>(&self, send: &[T], recv: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllToAll);
        self.run(what, send, recv)
    }

    /// Runs [`Job::alltoall`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn alltoall_in_place<T: Element>(&self, buffer: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllToAll);
        self.run_in_place(what, buffer)
    }

    /// Gives the root the `send` of all ranks, a chunk from each.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn gather<T: Element>(&self, send: &[T], recv: &mut [T], root: u32) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Gather).with_root(root);
        self.run(what, send, recv)
    }

    /// Runs [`Job::gather`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn gather_in_place<T: Element>(&self, buffer: &mut [T], root: u32) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Gather).with_root(root);
        self.run_in_place(what, buffer)
    }

    /// Gives each rank its chunk of the root's `send`.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn scatter<T: Element>(&self, send: &[T], recv: &mut [T], root: u32) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Scatter).with_root(root);
        self.run(what, send, recv)
    }

    /// Runs [`Job::scatter`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn scatter_in_place<T: Element>(&self, buffer: &mut [T], root: u32) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::Scatter).with_root(root);
        self.run_in_place(what, buffer)
    }

    /// Sends `send` to the next rank, and receives that of the previous one, in a ring.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn sendrecv<T: Element>(&self, send: &[T], recv: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::SendRecv);
        self.run(what, send, recv)
    }

    /// Runs [`Job::sendrecv`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn sendrecv_in_place<T: Element>(&self, buffer: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::SendRecv);
        self.run_in_place(what, buffer)
    }

    /// Does what an all_gather does, by exchanges that double in size. The number of ranks is a
    /// power of two.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn hypercube<T: Element>(&self, send: &[T], recv: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::HyperCube);
        self.run(what, send, recv)
    }

    /// Runs [`Job::hypercube`] in place.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn hypercube_in_place<T: Element>(&self, buffer: &mut [T]) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::HyperCube);
        self.run_in_place(what, buffer)
    }

    /// Sends the next `sent[r]` elements of `send` to each rank r, and receives the next
    /// `received[r]` elements of `recv` from it. In place, parts of different lengths would
    /// overwrite each other, so there is no such form.
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn alltoallv<T: Element>(
        &self,
        send: &[T],
        sent: &[usize],
        recv: &mut [T],
        received: &[usize],
    ) -> anyhow::Result<()> {
        let _guard = self.watch("alltoallv");
        self.communicator.alltoallv(send, sent, recv, received)
    }

    /// Starts an all_reduce in `buffer`, and returns at once. Several may be started one after
    /// another, in the same order on every rank. The buffer comes back from [`Pending::wait`].
    ///
    /// # Errors
    /// As [`Job::all_reduce`].
    pub fn start_all_reduce<T: Element>(
        &self,
        buffer: Vec<T>,
        redop: RedOp,
    ) -> anyhow::Result<Pending<'_, T>> {
        Ok(Pending {
            started: self.communicator.start_all_reduce(buffer, redop)?,
            timeout: self.timeout.get(),
        })
    }

    fn run<T: Element>(
        &self,
        what: SliceOperation,
        send: &[T],
        recv: &mut [T],
    ) -> anyhow::Result<()> {
        let _guard = self.watch(what.collective.name());
        self.communicator.run(what, send, recv)
    }

    fn run_in_place<T: Element>(
        &self,
        what: SliceOperation,
        buffer: &mut [T],
    ) -> anyhow::Result<()> {
        let _guard = self.watch(what.collective.name());
        self.communicator.run_in_place(what, buffer)
    }
}
