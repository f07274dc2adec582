//! The functions of MPI that collectives call, each with the arguments of an operation.

#![expect(unsafe_code, reason = "rsmpi has no reductions on untyped memory")]

use std::ffi::c_int;

use mpi::ffi;

use super::{operation::Operation, parts::Parts};
use crate::collective::hypercube;

pub(super) unsafe fn all_reduce(op: &Operation<'_>) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Allreduce(
            op.send_or_in_place(),
            op.recv,
            op.count,
            op.dtype,
            op.redop,
            op.comm,
        )
    }
}

pub(super) unsafe fn all_gather(op: &Operation<'_>) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Allgather(
            send, op.count, op.dtype, op.base, op.count, op.dtype, op.comm,
        )
    }
}

pub(super) unsafe fn reduce_scatter(op: &Operation<'_>) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by this function's contract.
    unsafe { ffi::MPI_Reduce_scatter_block(send, op.base, op.count, op.dtype, op.redop, op.comm) }
}

pub(super) unsafe fn broadcast(op: &Operation<'_>) -> c_int {
    let buffer = op.broadcast_buffer();
    // SAFETY: by this function's contract; the root's buffer is only read.
    unsafe { ffi::MPI_Bcast(buffer, op.count, op.dtype, op.root, op.comm) }
}

pub(super) unsafe fn reduce(op: &Operation<'_>) -> c_int {
    let (send, recv) = (op.send_to_root(), op.recv_on_root(op.recv));
    // SAFETY: by this function's contract.
    unsafe { ffi::MPI_Reduce(send, recv, op.count, op.dtype, op.redop, op.root, op.comm) }
}

pub(super) unsafe fn alltoall(op: &Operation<'_>) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Alltoall(
            send, op.count, op.dtype, op.recv, op.count, op.dtype, op.comm,
        )
    }
}

pub(super) unsafe fn gather(op: &Operation<'_>) -> c_int {
    let (send, recv) = (op.send_to_root(), op.recv_on_root(op.base));
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Gather(
            send, op.count, op.dtype, recv, op.count, op.dtype, op.root, op.comm,
        )
    }
}

pub(super) unsafe fn scatter(op: &Operation<'_>) -> c_int {
    let (send, recv) = op.scatter_buffers();
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Scatter(
            send, op.count, op.dtype, recv, op.count, op.dtype, op.root, op.comm,
        )
    }
}

pub(super) unsafe fn sendrecv(op: &Operation<'_>) -> c_int {
    let (next, previous) = op.neighbours();
    // SAFETY: by this function's contract; no status is asked for.
    unsafe {
        let no_status = ffi::RSMPI_STATUS_IGNORE;
        if op.in_place {
            ffi::MPI_Sendrecv_replace(
                op.recv, op.count, op.dtype, next, 0, previous, 0, op.comm, no_status,
            )
        } else {
            let (send, recv, count, dtype) = (op.send, op.recv, op.count, op.dtype);
            ffi::MPI_Sendrecv(
                send, count, dtype, next, 0, recv, count, dtype, previous, 0, op.comm, no_status,
            )
        }
    }
}

pub(super) unsafe fn hyper_cube(op: &Operation<'_>) -> c_int {
    if !op.in_place {
        let own_chunk = op.chunk(op.rank as u64).cast::<u8>();
        let bytes = op.count as usize * op.element;
        // SAFETY: by this function's contract; the two buffers are separate.
        unsafe { std::ptr::copy_nonoverlapping(op.send.cast::<u8>(), own_chunk, bytes) };
    }
    for round in hypercube::rounds(op.rank as u64, op.ranks as u64) {
        let peer = round.peer as c_int;
        let count = op.count * round.chunks as c_int;
        let (from, to) = (op.chunk(round.from), op.chunk(round.to));
        // SAFETY: by this function's contract; what is sent and what is received do not overlap. No
        // status is asked for.
        let code = unsafe {
            let (dtype, comm, no_status) = (op.dtype, op.comm, ffi::RSMPI_STATUS_IGNORE);
            ffi::MPI_Sendrecv(
                from, count, dtype, peer, 0, to, count, dtype, peer, 0, comm, no_status,
            )
        };
        if code != 0 {
            return code;
        }
    }
    0
}

pub(super) unsafe fn alltoallv(op: &Operation<'_>) -> c_int {
    // SAFETY: by this function's contract.
    let send = unsafe { op.separate_send(op.parts.sent_elements()) };
    let Parts {
        sent,
        send_offsets,
        received,
        recv_offsets,
    } = op.parts;
    // SAFETY: by this function's contract; there is a count and an offset for each rank.
    unsafe {
        ffi::MPI_Alltoallv(
            send,
            sent.as_ptr(),
            send_offsets.as_ptr(),
            op.dtype,
            op.recv,
            received.as_ptr(),
            recv_offsets.as_ptr(),
            op.dtype,
            op.comm,
        )
    }
}
