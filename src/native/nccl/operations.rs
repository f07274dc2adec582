//! Collectives, sends and receives.

use std::ffi::{c_int, c_void};

use super::library::{Nccl, RawComm, RawStream, call};

/// `ncclScalarHostImmediate`: a scalar is on the host, and read before the call returns.
const HOST_IMMEDIATE: c_int = 1;

/// Operations on a communicator.
///
/// # Safety
/// `comm` is from [`Nccl::comm_init`] and not yet destroyed or aborted, and no other thread is
/// inside a call on it, except for `comm_async_error`. `stream` is a stream of the communicator's
/// GPU. The buffers are memory of that GPU, as large as the counts say, until the operation has
/// ended on the stream. Types, operations and roots are NCCL's numbers.
#[expect(clippy::missing_safety_doc, reason = "one section covers all of them")]
#[expect(
    clippy::missing_errors_doc,
    reason = "they fail if NCCL fails or lacks the function"
)]
#[expect(clippy::too_many_arguments, reason = "they are NCCL's")]
#[expect(missing_docs, reason = "nccl.h says what each does")]
impl Nccl {
    #[doc(alias = "ncclAllReduce")]
    #[inline]
    pub unsafe fn all_reduce(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        op: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            all_reduce(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                op,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclAllGather")]
    #[inline]
    pub unsafe fn all_gather(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            all_gather(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclReduceScatter")]
    #[inline]
    pub unsafe fn reduce_scatter(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        op: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            reduce_scatter(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                op,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclBroadcast")]
    #[inline]
    pub unsafe fn broadcast(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            broadcast(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                root,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclReduce")]
    #[inline]
    pub unsafe fn reduce(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        op: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            reduce(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                op,
                root,
                comm,
                stream
            )
        )
    }

    /// Creates an operation that multiplies this rank's input by `scalar`, an element of `dtype`,
    /// and then adds. Returns its number, which is valid on this communicator only.
    #[doc(alias = "ncclRedOpCreatePreMulSum")]
    pub unsafe fn redop_create_premulsum(
        &self,
        scalar: &[u8; 8],
        dtype: c_int,
        comm: RawComm,
    ) -> anyhow::Result<c_int> {
        // Aligned for any type.
        let mut scalar = u64::from_ne_bytes(*scalar);
        let (mut op, scalar) = (0, (&raw mut scalar).cast());
        call!(
            self,
            comm,
            redop_create_premulsum(&mut op, scalar, dtype, HOST_IMMEDIATE, comm)
        )?;
        Ok(op)
    }

    #[doc(alias = "ncclRedOpDestroy")]
    pub unsafe fn redop_destroy(&self, op: c_int, comm: RawComm) -> anyhow::Result<()> {
        call!(self, comm, redop_destroy(op, comm))
    }

    #[doc(alias = "ncclSend")]
    #[inline]
    pub unsafe fn send(
        &self,
        send: u64,
        count: usize,
        dtype: c_int,
        peer: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            send(send as *const c_void, count, dtype, peer, comm, stream)
        )
    }

    #[doc(alias = "ncclRecv")]
    #[inline]
    pub unsafe fn recv(
        &self,
        recv: u64,
        count: usize,
        dtype: c_int,
        peer: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            recv(recv as *mut c_void, count, dtype, peer, comm, stream)
        )
    }

    #[doc(alias = "ncclAlltoAll")]
    #[inline]
    pub unsafe fn all_to_all(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            all_to_all(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclGather")]
    #[inline]
    pub unsafe fn gather(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            gather(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                root,
                comm,
                stream
            )
        )
    }

    #[doc(alias = "ncclScatter")]
    #[inline]
    pub unsafe fn scatter(
        &self,
        send: u64,
        recv: u64,
        count: usize,
        dtype: c_int,
        root: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> anyhow::Result<()> {
        call!(
            self,
            comm,
            scatter(
                send as *const c_void,
                recv as *mut c_void,
                count,
                dtype,
                root,
                comm,
                stream
            )
        )
    }
}
