//! The MPI call for each collective, and MPI's types and operations.

#![expect(
    unsafe_code,
    reason = "rsmpi has no MPI_IN_PLACE and no reductions on untyped memory"
)]

use std::ffi::{c_int, c_void};

use mpi::ffi;

use crate::{
    collective::{
        BufferMode, Case, Collective, Layout,
        data::{Content, DType, Region},
        hypercube,
    },
    exit::{Code, Failure},
};

unsafe extern "C" {
    /// MPI_IN_PLACE, from `world/mpi_macros.c`.
    static pxnbench_mpi_in_place: *mut c_void;
}

/// Returns MPI_IN_PLACE.
pub(super) fn in_place_argument() -> *mut c_void {
    // SAFETY: the C constant is initialised before main and never written.
    unsafe { pxnbench_mpi_in_place }
}

/// The pointers and counts of one operation. `send` and `recv` are those of the layout; in place
/// both lie in the same buffer, `base`.
pub(super) struct Operation<'a> {
    pub(super) in_place: bool,
    /// Start of the receive buffer.
    pub(super) base: *mut c_void,
    pub(super) send: *const c_void,
    pub(super) recv: *mut c_void,
    /// The send buffer, which in place has room for a copy.
    pub(super) copy: *mut c_void,
    pub(super) count: c_int,
    /// Bytes of an element.
    pub(super) element: usize,
    pub(super) dtype: ffi::MPI_Datatype,
    pub(super) redop: ffi::MPI_Op,
    pub(super) rank: c_int,
    pub(super) ranks: c_int,
    pub(super) root: c_int,
    /// All processes, or those of one of several communicators.
    pub(super) comm: ffi::MPI_Comm,
    pub(super) parts: &'a Parts,
}

/// What an alltoallv sends to and receives from each rank, in the form that MPI needs; empty for
/// every other collective.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) sent: Vec<c_int>,
    pub(super) send_offsets: Vec<c_int>,
    pub(super) received: Vec<c_int>,
    pub(super) recv_offsets: Vec<c_int>,
}

impl Parts {
    /// Returns the parts of rank `rank` in `case`.
    pub(super) fn new(case: &Case, rank: u64) -> Parts {
        let mut parts = Parts::default();
        for flow in case.flows(rank) {
            parts.sent.push(flow.send as c_int);
            parts.send_offsets.push(flow.send_offset as c_int);
            parts.received.push(flow.recv as c_int);
            parts.recv_offsets.push(flow.recv_offset as c_int);
        }
        parts
    }

    /// Returns parts of these lengths, in rank order, which follow one another without a gap.
    pub(super) fn one_after_another(sent: &[usize], received: &[usize]) -> Parts {
        let (sent, send_offsets) = with_offsets(sent);
        let (received, recv_offsets) = with_offsets(received);
        Parts {
            sent,
            send_offsets,
            received,
            recv_offsets,
        }
    }

    /// Returns the number of elements from the first that is sent to the last.
    pub(super) fn sent_elements(&self) -> usize {
        let ends = self.sent.iter().zip(&self.send_offsets);
        let last = ends.map(|(count, offset)| count + offset).max();
        last.unwrap_or(0) as usize
    }
}

/// Returns the lengths of parts, and where each begins.
fn with_offsets(lengths: &[usize]) -> (Vec<c_int>, Vec<c_int>) {
    let mut counts = Vec::with_capacity(lengths.len());
    let mut offsets = Vec::with_capacity(lengths.len());
    let mut end = 0;
    for &length in lengths {
        counts.push(length as c_int);
        offsets.push(end);
        end += length as c_int;
    }
    (counts, offsets)
}

/// The MPI call that runs a collective.
pub(super) struct MpiCall {
    /// The name of the function, out of place and in place, for messages.
    pub(super) names: [&'static str; 2],
    /// Runs it once, and returns MPI's return code.
    ///
    /// # Safety
    /// The pointers of the operation are valid for what the collective sends and receives.
    pub(super) run: unsafe fn(&Operation<'_>) -> c_int,
    /// Adapts the layout of a case on a rank, if MPI leaves another result than the collective's
    /// layout says.
    pub(super) adapt: fn(&Case, u64, Layout) -> Layout,
}

/// Returns the MPI call of `collective`. The comments tell which buffers it uses on the root and on
/// the others, and which elements are checked.
///
/// Waived for every collective: more than 2³¹-1 elements (MPI's counts are `int`), reductions of 8-bit
/// floats (MPI has no such types), and avg and mulsum of integers (MPI has no such operations). In place,
/// alltoall, alltoallv and sendrecv are timed but not checked, as with NCCL.
pub(super) fn call_for(collective: Collective) -> MpiCall {
    match collective {
        // Out of place send -> recv; in place MPI_IN_PLACE -> recv, on every rank. All of recv is
        // checked.
        Collective::AllReduce => MpiCall {
            names: ["MPI_Allreduce"; 2],
            run: all_reduce,
            adapt: unchanged,
        },
        // Out of place send -> recv; in place the input of each rank is at its chunk of recv. All
        // of recv is checked.
        Collective::AllGather => MpiCall {
            names: ["MPI_Allgather"; 2],
            run: all_gather,
            adapt: unchanged,
        },
        // In place MPI reads the input from recv and leaves the result at its start, not at the
        // rank's chunk as NCCL does. MPI may overwrite the rest, so only the result is checked.
        Collective::ReduceScatter => MpiCall {
            names: ["MPI_Reduce_scatter_block"; 2],
            run: reduce_scatter,
            adapt: result_at_the_start,
        },
        // MPI has one buffer: out of place the root sends from send, and its recv must stay
        // untouched, while the others receive into recv. All of recv is checked.
        Collective::Broadcast => MpiCall {
            names: ["MPI_Bcast"; 2],
            run: broadcast,
            adapt: root_receives_nothing,
        },
        // On the root send -> recv, in place MPI_IN_PLACE -> recv; the others only send, in place
        // from recv, which must not change. All of recv is checked.
        Collective::Reduce => MpiCall {
            names: ["MPI_Reduce"; 2],
            run: reduce,
            adapt: unchanged,
        },
        // Out of place send -> recv, all of recv is checked; in place MPI_IN_PLACE -> recv, timed
        // only.
        Collective::AllToAll => MpiCall {
            names: ["MPI_Alltoall"; 2],
            run: alltoall,
            adapt: unchanged,
        },
        // On the root send -> recv, in place its input is at its chunk of recv; the others only
        // send, in place from their chunk of recv. All of recv is checked.
        Collective::Gather => MpiCall {
            names: ["MPI_Gather"; 2],
            run: gather,
            adapt: unchanged,
        },
        // On the root send -> recv, in place its chunk stays where it is; the others receive, in
        // place into their chunk of recv. All of recv is checked.
        Collective::Scatter => MpiCall {
            names: ["MPI_Scatter"; 2],
            run: scatter,
            adapt: unchanged,
        },
        // A ring: to the next rank, from the previous one. Out of place all of recv is checked; in
        // place timed only.
        Collective::SendRecv => MpiCall {
            names: ["MPI_Sendrecv", "MPI_Sendrecv_replace"],
            run: sendrecv,
            adapt: unchanged,
        },
        // A round for each bit of a rank's number, in recv, which has the rank's input at its
        // chunk: in place it is there already, out of place it is copied first. All of recv is
        // checked.
        Collective::HyperCube => MpiCall {
            names: ["MPI_Sendrecv"; 2],
            run: hyper_cube,
            adapt: unchanged,
        },
        // Out of place send -> recv; all of recv is checked, including what lies behind the last
        // part. With MPI_IN_PLACE, MPI requires that any two ranks send each other the same amount,
        // so in place what is sent is copied from recv first; timed only.
        Collective::AllToAllV => MpiCall {
            names: ["MPI_Alltoallv"; 2],
            run: alltoallv,
            adapt: unchanged,
        },
    }
}

fn unchanged(_: &Case, _: u64, layout: Layout) -> Layout {
    layout
}

/// Returns the layout of MPI_Reduce_scatter_block, which in place leaves the result at the start of
/// the buffer.
fn result_at_the_start(case: &Case, rank: u64, layout: Layout) -> Layout {
    if case.buffer_mode == BufferMode::OutOfPlace {
        return layout;
    }
    let share = case.counts.param;
    if share == 0 {
        return Layout {
            expected: Vec::new(),
            ..layout
        };
    }
    let result = Region {
        offset: 0,
        len: share,
        content: Content::Reduced {
            first: rank * share,
        },
    };
    Layout {
        expected: vec![result],
        recv_offset: 0,
        ..layout
    }
}

/// Returns the layout of MPI_Bcast, which out of place leaves the receive buffer of the root alone.
fn root_receives_nothing(case: &Case, rank: u64, layout: Layout) -> Layout {
    let is_root = case.root.map(u64::from) == Some(rank);
    if case.buffer_mode == BufferMode::InPlace || !is_root {
        return layout;
    }
    Layout {
        expected: layout.recv.clone(),
        ..layout
    }
}

impl Operation<'_> {
    /// Returns the send argument of a call that accepts MPI_IN_PLACE.
    pub(super) fn send_or_in_place(&self) -> *const c_void {
        if self.in_place {
            in_place_argument()
        } else {
            self.send
        }
    }

    fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// Returns the only buffer of a broadcast, which MPI only reads on the root.
    pub(super) fn broadcast_buffer(&self) -> *mut c_void {
        if self.is_root() {
            self.send.cast_mut()
        } else {
            self.recv
        }
    }

    /// Returns the send argument of a call in which only the root may pass MPI_IN_PLACE; the others send from their own
    /// buffer.
    pub(super) fn send_to_root(&self) -> *const c_void {
        if self.is_root() {
            self.send_or_in_place()
        } else {
            self.send
        }
    }

    /// Returns `recv` on the root, which alone receives.
    pub(super) fn recv_on_root(&self, recv: *mut c_void) -> *mut c_void {
        if self.is_root() {
            recv
        } else {
            std::ptr::null_mut()
        }
    }

    /// Returns the send and the receive argument of a scatter.
    pub(super) fn scatter_buffers(&self) -> (*const c_void, *mut c_void) {
        let recv = if self.is_root() && self.in_place {
            in_place_argument()
        } else {
            self.recv
        };
        let send = if self.is_root() {
            self.send
        } else {
            std::ptr::null()
        };
        (send, recv)
    }

    /// Returns the next and the previous rank of a ring.
    pub(super) fn neighbours(&self) -> (c_int, c_int) {
        let next = (self.rank + 1) % self.ranks;
        let previous = (self.rank + self.ranks - 1) % self.ranks;
        (next, previous)
    }

    /// Copies the first `elements` of what is sent in place to the other buffer, and returns it; out of place, returns the
    /// send buffer.
    ///
    /// # Safety
    /// The pointers are valid for that many elements.
    pub(super) unsafe fn separate_send(&self, elements: usize) -> *const c_void {
        if !self.in_place {
            return self.send;
        }
        let bytes = elements * self.element;
        // SAFETY: by this function's contract; the two buffers are separate.
        unsafe { std::ptr::copy_nonoverlapping(self.send.cast::<u8>(), self.copy.cast(), bytes) };
        self.copy.cast_const()
    }

    /// Returns the start of the chunk of rank `rank` in the receive buffer.
    fn chunk(&self, rank: u64) -> *mut c_void {
        let bytes = self.count as usize * self.element;
        let base = self.base.cast::<u8>();
        base.wrapping_add(rank as usize * bytes).cast()
    }
}

unsafe fn all_reduce(op: &Operation<'_>) -> c_int {
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

unsafe fn all_gather(op: &Operation<'_>) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Allgather(
            send, op.count, op.dtype, op.base, op.count, op.dtype, op.comm,
        )
    }
}

unsafe fn reduce_scatter(op: &Operation<'_>) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by this function's contract.
    unsafe { ffi::MPI_Reduce_scatter_block(send, op.base, op.count, op.dtype, op.redop, op.comm) }
}

unsafe fn broadcast(op: &Operation<'_>) -> c_int {
    let buffer = op.broadcast_buffer();
    // SAFETY: by this function's contract; the root's buffer is only read.
    unsafe { ffi::MPI_Bcast(buffer, op.count, op.dtype, op.root, op.comm) }
}

unsafe fn reduce(op: &Operation<'_>) -> c_int {
    let (send, recv) = (op.send_to_root(), op.recv_on_root(op.recv));
    // SAFETY: by this function's contract.
    unsafe { ffi::MPI_Reduce(send, recv, op.count, op.dtype, op.redop, op.root, op.comm) }
}

unsafe fn alltoall(op: &Operation<'_>) -> c_int {
    let send = op.send_or_in_place();
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Alltoall(
            send, op.count, op.dtype, op.recv, op.count, op.dtype, op.comm,
        )
    }
}

unsafe fn gather(op: &Operation<'_>) -> c_int {
    let (send, recv) = (op.send_to_root(), op.recv_on_root(op.base));
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Gather(
            send, op.count, op.dtype, recv, op.count, op.dtype, op.root, op.comm,
        )
    }
}

unsafe fn scatter(op: &Operation<'_>) -> c_int {
    let (send, recv) = op.scatter_buffers();
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Scatter(
            send, op.count, op.dtype, recv, op.count, op.dtype, op.root, op.comm,
        )
    }
}

unsafe fn sendrecv(op: &Operation<'_>) -> c_int {
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

unsafe fn hyper_cube(op: &Operation<'_>) -> c_int {
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

unsafe fn alltoallv(op: &Operation<'_>) -> c_int {
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

/// Returns MPI's type for elements that are reduced, or else for elements of the same size, which
/// are only moved.
pub(super) fn datatype(dtype: DType, reduced: bool) -> ffi::MPI_Datatype {
    // SAFETY: C constants, set when the library is loaded.
    unsafe {
        match (dtype, reduced) {
            (DType::Int8, _) => ffi::RSMPI_INT8_T,
            (DType::Uint8, _) => ffi::RSMPI_UINT8_T,
            (DType::Int32, _) => ffi::RSMPI_INT32_T,
            (DType::Uint32, _) => ffi::RSMPI_UINT32_T,
            (DType::Int64, _) => ffi::RSMPI_INT64_T,
            (DType::Uint64, _) => ffi::RSMPI_UINT64_T,
            (DType::Float, true) => ffi::RSMPI_FLOAT,
            (DType::Double, true) => ffi::RSMPI_DOUBLE,
            (DType::Float, false) => ffi::RSMPI_UINT32_T,
            (DType::Double, false) => ffi::RSMPI_UINT64_T,
            // What reduces these is not MPI's own.
            (DType::Half | DType::Bfloat16, _) => ffi::RSMPI_UINT16_T,
            // Reductions of these are waived, so they are only moved.
            (DType::F8e4m3 | DType::F8e5m2, _) => ffi::RSMPI_UINT8_T,
        }
    }
}

/// Turns MPI's return code into an error. By default MPI ends the job itself.
pub(super) fn check_code(name: &str, code: c_int, case: &Case) -> anyhow::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(failure(name, code, case)),
    }
}

/// Returns the error for a return code of MPI.
pub(super) fn failure(name: &str, code: c_int, case: &Case) -> anyhow::Error {
    let what = format!("{name} failed with code {code} in {case}");
    Failure::on_this_rank(Code::Launch, what)
}
