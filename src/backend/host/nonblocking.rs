//! The MPI calls that start a collective and return, for operations that run while others do.

#![expect(
    unsafe_code,
    reason = "rsmpi has no MPI_IN_PLACE and no reductions on untyped memory"
)]

use std::ffi::c_int;

use mpi::ffi;

use super::{call::check_code, operation::Operation};
use crate::collective::{Case, Collective};

/// The MPI call that starts a collective. It uses the same buffers as the one that waits for the
/// end.
#[derive(Clone, Copy)]
pub(super) struct NonblockingCall {
    /// The name of the function, for messages.
    name: &'static str,
    /// Starts it, and returns MPI's return code.
    ///
    /// # Safety
    /// The pointers of the operation, and its parts, are valid until both requests have ended.
    start: unsafe fn(&Operation<'_>, &mut [ffi::MPI_Request; 2]) -> c_int,
}

/// A collective that MPI has started. Its buffers are MPI's until it has ended.
#[must_use = "it ends only if it is asked whether it has"]
pub(super) struct StartedCollective {
    name: &'static str,
    case: Case,
    requests: [ffi::MPI_Request; 2],
}

impl NonblockingCall {
    /// Starts `operation` of `case`.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    ///
    /// # Safety
    /// The pointers of the operation, and its parts, are valid until it has ended.
    pub(super) unsafe fn start(
        self,
        operation: &Operation<'_>,
        case: &Case,
    ) -> anyhow::Result<StartedCollective> {
        // SAFETY: a C constant, set when the library is loaded.
        let none = unsafe { ffi::RSMPI_REQUEST_NULL };
        let mut requests = [none; 2];
        // SAFETY: by this function's contract.
        let code = unsafe { (self.start)(operation, &mut requests) };
        check_code(self.name, code, case)?;
        Ok(StartedCollective {
            name: self.name,
            case: *case,
            requests,
        })
    }
}

impl StartedCollective {
    /// Returns whether it has ended. Most MPI libraries go on with it only in such a call.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub(super) fn has_ended(&mut self) -> anyhow::Result<bool> {
        let mut has_ended = 0;
        let count = self.requests.len() as c_int;
        // SAFETY: the requests are of this operation, or null; no status is asked for.
        let code = unsafe {
            ffi::MPI_Testall(
                count,
                self.requests.as_mut_ptr(),
                &mut has_ended,
                ffi::RSMPI_STATUSES_IGNORE,
            )
        };
        check_code(self.name, code, &self.case)?;
        Ok(has_ended != 0)
    }
}

/// Returns the MPI call that starts `collective`; `None` for a hypercube, whose rounds wait for
/// each other.
pub(super) fn nonblocking_call(collective: Collective) -> Option<NonblockingCall> {
    let call = |name, start| Some(NonblockingCall { name, start });
    match collective {
        Collective::AllReduce => call("MPI_Iallreduce", all_reduce),
        Collective::AllGather => call("MPI_Iallgather", all_gather),
        Collective::ReduceScatter => call("MPI_Ireduce_scatter_block", reduce_scatter),
        Collective::Broadcast => call("MPI_Ibcast", broadcast),
        Collective::Reduce => call("MPI_Ireduce", reduce),
        Collective::AllToAll => call("MPI_Ialltoall", alltoall),
        Collective::Gather => call("MPI_Igather", gather),
        Collective::Scatter => call("MPI_Iscatter", scatter),
        Collective::SendRecv => call("MPI_Isend and MPI_Irecv", sendrecv),
        Collective::AllToAllV => call("MPI_Ialltoallv", alltoallv),
        Collective::HyperCube => None,
    }
}

unsafe fn all_reduce(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by the contract of `NonblockingCall`, as in all functions below.
    unsafe {
        ffi::MPI_Iallreduce(
            send,
            op.recv,
            op.count,
            op.dtype,
            op.redop,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn all_gather(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let (send, count, dtype) = (op.send_or_in_place(), op.count, op.dtype);
    // SAFETY: as above.
    unsafe {
        ffi::MPI_Iallgather(
            send,
            count,
            dtype,
            op.base,
            count,
            dtype,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn reduce_scatter(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: as above.
    unsafe {
        ffi::MPI_Ireduce_scatter_block(
            send,
            op.base,
            op.count,
            op.dtype,
            op.redop,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn broadcast(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let buffer = op.broadcast_buffer();
    // SAFETY: as above; the root's buffer is only read.
    unsafe {
        ffi::MPI_Ibcast(
            buffer,
            op.count,
            op.dtype,
            op.root,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn reduce(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let (send, recv) = (op.send_to_root(), op.recv_on_root(op.recv));
    // SAFETY: as above.
    unsafe {
        ffi::MPI_Ireduce(
            send,
            recv,
            op.count,
            op.dtype,
            op.redop,
            op.root,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn alltoall(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let (send, count, dtype) = (op.send_or_in_place(), op.count, op.dtype);
    // SAFETY: as above.
    unsafe {
        ffi::MPI_Ialltoall(
            send,
            count,
            dtype,
            op.recv,
            count,
            dtype,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn gather(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let (send, recv) = (op.send_to_root(), op.recv_on_root(op.base));
    let (count, dtype) = (op.count, op.dtype);
    // SAFETY: as above.
    unsafe {
        ffi::MPI_Igather(
            send,
            count,
            dtype,
            recv,
            count,
            dtype,
            op.root,
            op.comm,
            &mut requests[0],
        )
    }
}

unsafe fn scatter(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let (send, recv) = op.scatter_buffers();
    let (count, dtype) = (op.count, op.dtype);
    // SAFETY: as above.
    unsafe {
        ffi::MPI_Iscatter(
            send,
            count,
            dtype,
            recv,
            count,
            dtype,
            op.root,
            op.comm,
            &mut requests[0],
        )
    }
}

/// Receives first, so that what comes need not be kept elsewhere. In place, what is sent is copied
/// before.
unsafe fn sendrecv(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let (next, previous) = op.neighbours();
    let (count, dtype, comm) = (op.count, op.dtype, op.comm);
    let [receives, sends] = requests;
    // SAFETY: as above.
    unsafe {
        let send = op.separate_send(count as usize);
        let code = ffi::MPI_Irecv(op.recv, count, dtype, previous, 0, comm, receives);
        if code != 0 {
            return code;
        }
        ffi::MPI_Isend(send, count, dtype, next, 0, comm, sends)
    }
}

unsafe fn alltoallv(op: &Operation<'_>, requests: &mut [ffi::MPI_Request; 2]) -> c_int {
    let parts = op.parts;
    // SAFETY: as above; there is a count and an offset for each rank.
    unsafe {
        ffi::MPI_Ialltoallv(
            op.separate_send(parts.sent_elements()),
            parts.sent.as_ptr(),
            parts.send_offsets.as_ptr(),
            op.dtype,
            op.recv,
            parts.received.as_ptr(),
            parts.recv_offsets.as_ptr(),
            op.dtype,
            op.comm,
            &mut requests[0],
        )
    }
}
