//! `host`: MPI on host memory. A laptop and a CI machine run the main job with it.
//!
//! NCCL's collectives and MPI's differ in places; `call` says for each which MPI call runs, on which buffers, what is
//! checked and what is waived.

#![expect(
    unsafe_code,
    reason = "rsmpi has no MPI_IN_PLACE and no reductions on untyped memory"
)]

use std::{
    ffi::{c_int, c_void},
    time::Instant,
};

use mpi::ffi;

use super::{Backend, Timing, Waived, possible, rotation};
use crate::{
    collective::{
        BufferMode, Case, Collective, Layout,
        data::{self, DType, RedOp, Region},
        hypercube, traffic,
    },
    exit::{Code, Failure},
    units::Bytes,
};

unsafe extern "C" {
    /// MPI_IN_PLACE, from `world/mpi_macros.c`.
    static pxnbench_mpi_in_place: *mut c_void;
}

/// The pointers and counts of one operation. `send` and `recv` are those of the layout: in place both lie in the one
/// buffer, `base`.
struct Operation<'a> {
    in_place: bool,
    /// Start of the receive buffer.
    base: *mut c_void,
    send: *const c_void,
    recv: *mut c_void,
    count: c_int,
    /// Bytes of an element.
    element: usize,
    dtype: ffi::MPI_Datatype,
    redop: ffi::MPI_Op,
    rank: c_int,
    ranks: c_int,
    root: c_int,
    /// All processes, or those of one communicator of several.
    comm: ffi::MPI_Comm,
    parts: &'a Parts,
}

/// What an alltoallv sends to and receives from each rank, as MPI takes it; empty for all else.
#[derive(Default)]
struct Parts {
    sent: Vec<c_int>,
    send_offsets: Vec<c_int>,
    received: Vec<c_int>,
    recv_offsets: Vec<c_int>,
}

impl Parts {
    fn of(case: &Case, rank: u64) -> Parts {
        let mut parts = Parts::default();
        if case.collective == Collective::AllToAllV {
            for flow in traffic::flows(case, rank) {
                parts.sent.push(flow.send as c_int);
                parts.send_offsets.push(flow.send_offset as c_int);
                parts.received.push(flow.recv as c_int);
                parts.recv_offsets.push(flow.recv_offset as c_int);
            }
        }
        parts
    }
}

/// Which MPI call runs a collective.
struct Call {
    /// The call out of place and in place, for messages.
    names: [&'static str; 2],
    /// Runs it once; the result is MPI's return code.
    ///
    /// # Safety
    /// The pointers of the operation are valid for what the collective sends and receives.
    start: unsafe fn(&Operation<'_>) -> c_int,
    /// Where MPI leaves another result than the collective's layout says.
    adapt: fn(&Case, u64, Layout) -> Layout,
}

/// For each collective: which MPI call, which buffers on the root and the others, which elements are checked.
///
/// Waived for all: more than 2³¹-1 elements (MPI's counts are `int`), reductions of floats of 8 and 16 bits (MPI has no such
/// types), and avg and mulsum (MPI has no such operations). In place, alltoall and sendrecv are timed but not checked, as on
/// NCCL.
fn call(collective: Collective) -> Call {
    match collective {
        // Out of place send -> recv; in place MPI_IN_PLACE -> recv, on every rank. All of recv is checked.
        Collective::AllReduce => Call {
            names: ["MPI_Allreduce"; 2],
            start: all_reduce,
            adapt: as_it_is,
        },
        // Out of place send -> recv; in place each rank's input stands at its chunk of recv. All of recv is checked.
        Collective::AllGather => Call {
            names: ["MPI_Allgather"; 2],
            start: all_gather,
            adapt: as_it_is,
        },
        // In place MPI takes the input from recv and leaves the result at its start, not at the rank's chunk as NCCL does;
        // the rest is MPI's to overwrite, so only the result is checked.
        Collective::ReduceScatter => Call {
            names: ["MPI_Reduce_scatter_block"; 2],
            start: reduce_scatter,
            adapt: |case, rank, layout| {
                let share = case.counts.param;
                let result = Region {
                    offset: 0,
                    len: share,
                    content: data::Content::Reduced {
                        first: rank * share,
                    },
                };
                match case.buffer_mode {
                    BufferMode::OutOfPlace => layout,
                    BufferMode::InPlace if share == 0 => Layout {
                        expected: Vec::new(),
                        ..layout
                    },
                    BufferMode::InPlace => Layout {
                        expected: vec![result],
                        recv_offset: 0,
                        ..layout
                    },
                }
            },
        },
        // MPI has one buffer: out of place the root sends from send, and its recv must stay untouched; the others receive
        // into recv. All of recv is checked.
        Collective::Broadcast => Call {
            names: ["MPI_Bcast"; 2],
            start: broadcast,
            adapt: |case, rank, layout| match (
                case.buffer_mode,
                case.root.map(u64::from) == Some(rank),
            ) {
                (BufferMode::OutOfPlace, true) => Layout {
                    expected: layout.recv.clone(),
                    ..layout
                },
                _ => layout,
            },
        },
        // On the root send -> recv, in place MPI_IN_PLACE -> recv; the others only send, in place from recv, which must stay
        // as it was. All of recv is checked.
        Collective::Reduce => Call {
            names: ["MPI_Reduce"; 2],
            start: reduce,
            adapt: as_it_is,
        },
        // Out of place send -> recv, all of recv is checked; in place MPI_IN_PLACE -> recv, timed only.
        Collective::AllToAll => Call {
            names: ["MPI_Alltoall"; 2],
            start: alltoall,
            adapt: as_it_is,
        },
        // On the root send -> recv, in place its input stands at its chunk of recv; the others only send, in place from
        // their chunk of recv. All of recv is checked.
        Collective::Gather => Call {
            names: ["MPI_Gather"; 2],
            start: gather,
            adapt: as_it_is,
        },
        // On the root send -> recv, in place its chunk stays where it is; the others receive, in place into their chunk of
        // recv. All of recv is checked.
        Collective::Scatter => Call {
            names: ["MPI_Scatter"; 2],
            start: scatter,
            adapt: as_it_is,
        },
        // A ring: to the next rank, from the one before. Out of place all of recv is checked; in place timed only.
        Collective::SendRecv => Call {
            names: ["MPI_Sendrecv", "MPI_Sendrecv_replace"],
            start: sendrecv,
            adapt: as_it_is,
        },
        // A round for each bit of a rank's number, in recv, which has the rank's input at its chunk: in place it is there, out
        // of place it is copied first. All of recv is checked.
        Collective::HyperCube => Call {
            names: ["MPI_Sendrecv"; 2],
            start: hyper_cube,
            adapt: as_it_is,
        },
        // Out of place send -> recv, all of recv is checked, what lies behind the last part too. In place it is waived: there
        // MPI wants each two ranks to send each other the same amount.
        Collective::AllToAllV => Call {
            names: ["MPI_Alltoallv"; 2],
            start: alltoallv,
            adapt: as_it_is,
        },
    }
}

fn as_it_is(_: &Case, _: u64, layout: Layout) -> Layout {
    layout
}

impl Operation<'_> {
    /// The send argument of a call that takes MPI_IN_PLACE.
    fn send_or_in_place(&self) -> *const c_void {
        if self.in_place {
            // SAFETY: the C constant is initialised before main and never written.
            unsafe { pxnbench_mpi_in_place }
        } else {
            self.send
        }
    }

    fn is_root(&self) -> bool {
        self.rank == self.root
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
    let buffer = if op.is_root() {
        op.send.cast_mut()
    } else {
        op.recv
    };
    // SAFETY: by this function's contract; the root's buffer is only read.
    unsafe { ffi::MPI_Bcast(buffer, op.count, op.dtype, op.root, op.comm) }
}

unsafe fn reduce(op: &Operation<'_>) -> c_int {
    // MPI_IN_PLACE is for the root only; the others send from the buffer that is theirs.
    let send = if op.is_root() {
        op.send_or_in_place()
    } else {
        op.send
    };
    let recv = if op.is_root() {
        op.recv
    } else {
        std::ptr::null_mut()
    };
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
    let send = if op.is_root() {
        op.send_or_in_place()
    } else {
        op.send
    };
    let recv = if op.is_root() {
        op.base
    } else {
        std::ptr::null_mut()
    };
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Gather(
            send, op.count, op.dtype, recv, op.count, op.dtype, op.root, op.comm,
        )
    }
}

unsafe fn scatter(op: &Operation<'_>) -> c_int {
    let recv = if op.is_root() && op.in_place {
        // SAFETY: the C constant is initialised before main and never written.
        unsafe { pxnbench_mpi_in_place }
    } else {
        op.recv
    };
    let send = if op.is_root() {
        op.send
    } else {
        std::ptr::null()
    };
    // SAFETY: by this function's contract.
    unsafe {
        ffi::MPI_Scatter(
            send, op.count, op.dtype, recv, op.count, op.dtype, op.root, op.comm,
        )
    }
}

unsafe fn sendrecv(op: &Operation<'_>) -> c_int {
    let (next, before) = (
        (op.rank + 1) % op.ranks,
        (op.rank + op.ranks - 1) % op.ranks,
    );
    // SAFETY: by this function's contract; no status is asked for.
    unsafe {
        let no_status = ffi::RSMPI_STATUS_IGNORE;
        if op.in_place {
            ffi::MPI_Sendrecv_replace(
                op.recv, op.count, op.dtype, next, 0, before, 0, op.comm, no_status,
            )
        } else {
            let (send, recv, count, dtype) = (op.send, op.recv, op.count, op.dtype);
            ffi::MPI_Sendrecv(
                send, count, dtype, next, 0, recv, count, dtype, before, 0, op.comm, no_status,
            )
        }
    }
}

unsafe fn hyper_cube(op: &Operation<'_>) -> c_int {
    let chunk = op.count as usize * op.element;
    let at = |chunks: u64| {
        op.base
            .cast::<u8>()
            .wrapping_add(chunks as usize * chunk)
            .cast::<c_void>()
    };
    if !op.in_place {
        // SAFETY: by this function's contract; the two buffers are apart.
        unsafe {
            std::ptr::copy_nonoverlapping(op.send.cast::<u8>(), at(op.rank as u64).cast(), chunk)
        };
    }
    for round in hypercube::rounds(op.rank as u64, op.ranks as u64) {
        let (peer, count) = (round.peer as c_int, op.count * round.chunks as c_int);
        // SAFETY: by this function's contract; what is sent and what is received are apart. No status is asked for.
        let code = unsafe {
            let (comm, no_status) = (op.comm, ffi::RSMPI_STATUS_IGNORE);
            let (from, to, dtype) = (at(round.from), at(round.to), op.dtype);
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
    let Parts {
        sent,
        send_offsets,
        received,
        recv_offsets,
    } = op.parts;
    // SAFETY: by this function's contract; there is a count and an offset for each rank.
    unsafe {
        ffi::MPI_Alltoallv(
            op.send,
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

/// MPI on host memory.
pub struct Host {
    rank: u64,
    comm: ffi::MPI_Comm,
    /// Is `comm` this backend's own, to be freed?
    owns_comm: bool,
    /// Buffers of 64-bit words, so that every element type is aligned.
    send: Vec<u64>,
    recv: Vec<u64>,
    largest: Bytes,
    /// The largest buffer of which this rank can hold two.
    capacity: Option<Bytes>,
}

impl Host {
    /// The backend of this rank, which can hold two buffers of `capacity` where that is known. MPI must be running before
    /// anything runs.
    pub fn new(rank: u64, capacity: Option<Bytes>) -> Host {
        // SAFETY: the constant is initialised before main and never written.
        let comm = unsafe { ffi::RSMPI_COMM_WORLD };
        Host {
            rank,
            comm,
            owns_comm: false,
            send: Vec::new(),
            recv: Vec::new(),
            largest: Bytes(0),
            capacity,
        }
    }

    /// As [`Host::new`], in a communicator of the processes that say the same `group`. Every process calls it; MPI is running.
    pub fn in_group(rank: u64, group: u32, capacity: Option<Bytes>) -> Host {
        let mut host = Host::new(rank, capacity);
        // SAFETY: MPI is running, and every process calls this; the ranks keep their order. It writes one handle.
        unsafe { ffi::MPI_Comm_split(ffi::RSMPI_COMM_WORLD, group as c_int, 0, &mut host.comm) };
        host.owns_comm = true;
        host
    }

    /// The layout of this rank's buffers, as MPI leaves them.
    fn layout(&self, case: &Case) -> Layout {
        (call(case.collective).adapt)(case, self.rank, case.layout(self.rank))
    }

    /// The operation of `case` with its buffers `rotated` bytes in.
    fn operation<'a>(
        &mut self,
        case: &Case,
        layout: &Layout,
        parts: &'a Parts,
        rotated: u64,
    ) -> Operation<'a> {
        let size = case.dtype.size();
        let base = self
            .recv
            .as_mut_ptr()
            .cast::<u8>()
            .wrapping_add(rotated as usize);
        let in_place = case.buffer_mode == BufferMode::InPlace;
        let send = match in_place {
            true => base.wrapping_add((layout.send_offset * size) as usize),
            false => self
                .send
                .as_mut_ptr()
                .cast::<u8>()
                .wrapping_add(rotated as usize),
        };
        Operation {
            in_place,
            base: base.cast(),
            send: send.cast(),
            recv: base
                .wrapping_add((layout.recv_offset * size) as usize)
                .cast(),
            count: case.counts.param as c_int,
            element: size as usize,
            dtype: datatype(case.dtype, case.redop.is_some()),
            redop: case.redop.and_then(operation).unwrap_or_else(sum),
            rank: self.rank as c_int,
            ranks: case.ranks as c_int,
            root: case.root.unwrap_or(0) as c_int,
            comm: self.comm,
            parts,
        }
    }
}

/// Does MPI know what such elements are?
fn has_reductions(dtype: DType) -> bool {
    !dtype.is_float() || matches!(dtype, DType::Float | DType::Double)
}

/// MPI's type for elements that are reduced, or for elements of that size that are only moved.
fn datatype(dtype: DType, reduced: bool) -> ffi::MPI_Datatype {
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
            // Reductions of these are waived; moved, they are 16 bits, or 8.
            (DType::Half | DType::Bfloat16, _) => ffi::RSMPI_UINT16_T,
            (DType::F8e4m3 | DType::F8e5m2, _) => ffi::RSMPI_UINT8_T,
        }
    }
}

/// MPI's operation; `None` where it has none.
fn operation(redop: RedOp) -> Option<ffi::MPI_Op> {
    // SAFETY: C constants, set when the library is loaded.
    unsafe {
        match redop {
            RedOp::Sum => Some(ffi::RSMPI_SUM),
            RedOp::Prod => Some(ffi::RSMPI_PROD),
            RedOp::Max => Some(ffi::RSMPI_MAX),
            RedOp::Min => Some(ffi::RSMPI_MIN),
            RedOp::Avg | RedOp::MulSum => None,
        }
    }
}

fn sum() -> ffi::MPI_Op {
    // SAFETY: a C constant, set when the library is loaded.
    unsafe { ffi::RSMPI_SUM }
}

/// The bytes of `buffer`.
fn bytes(buffer: &mut [u64]) -> &mut [u8] {
    // SAFETY: every u64 is eight valid bytes, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), size_of_val(buffer)) }
}

/// The bytes of `region` in a buffer of elements of `size` bytes.
fn part<'a>(buffer: &'a mut [u64], region: &Region, size: u64) -> &'a mut [u8] {
    &mut bytes(buffer)
        [(region.offset * size) as usize..((region.offset + region.len) * size) as usize]
}

impl Backend for Host {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        possible(case)?;
        // In its last round a hypercube sends half of all in one message.
        let message = match case.collective {
            Collective::HyperCube => case.counts.recv / 2,
            // And the parts of an alltoallv have offsets.
            Collective::AllToAllV => case.counts.send.max(case.counts.recv),
            _ => case.counts.param,
        };
        let what = match (case.redop, case.dtype) {
            (Some(redop @ (RedOp::Avg | RedOp::MulSum)), _) => {
                format!("MPI has no {}", redop.name())
            }
            (Some(_), dtype) if !has_reductions(dtype) => {
                format!("MPI has no reductions of {}", dtype.name())
            }
            _ if case.collective == Collective::AllToAllV
                && case.buffer_mode == BufferMode::InPlace =>
            {
                "MPI_Alltoallv with MPI_IN_PLACE needs equal counts for every pair of ranks"
                    .to_owned()
            }
            _ if message > c_int::MAX as u64 => {
                "more than 2^31-1 elements do not fit MPI's counts".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Waived(what))
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        Ok(self.capacity)
    }

    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()> {
        let words = largest.0.div_ceil(8) as usize;
        for buffer in [&mut self.send, &mut self.recv] {
            buffer.try_reserve_exact(words).map_err(|_| {
                let what = format!(
                    "host memory does not have two buffers of {largest} for this rank: lower -e"
                );
                Failure::on_this_rank(Code::Usage, what)
            })?;
            buffer.resize(words, 0);
        }
        self.largest = largest;
        Ok(())
    }

    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let (layout, key) = (self.layout(case), case.data(seed));
        for region in &layout.send {
            data::write(
                &key,
                &region.content,
                part(&mut self.send, region, key.dtype.size()),
            );
        }
        for region in &layout.recv {
            data::write(
                &key,
                &region.content,
                part(&mut self.recv, region, key.dtype.size()),
            );
        }
        Ok(())
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        anyhow::ensure!(
            case.size() <= self.largest,
            "{case} does not fit into the buffers of {}",
            self.largest
        );
        let call = call(case.collective);
        let (layout, parts) = (case.layout(self.rank), Parts::of(case, self.rank));
        let start = Instant::now();
        for iteration in 0..times {
            let rotated = rotation(case.size(), self.largest, iteration);
            let operation = self.operation(case, &layout, &parts, rotated);
            // SAFETY: the buffers hold `largest` bytes, which is at least the rotated offset plus the case's size, and
            // the layout's offsets lie inside that size.
            let code = unsafe { (call.start)(&operation) };
            if code != 0 {
                let name = call.names[usize::from(operation.in_place)];
                return Err(Failure::on_this_rank(
                    Code::Launch,
                    format!("{name} failed with code {code} in {case}"),
                ));
            }
        }
        Ok(Timing::of(start.elapsed(), times))
    }

    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let (layout, key) = (self.layout(case), case.data(seed));
        let wrong = |region: &Region| {
            data::count_wrong(
                &key,
                &region.content,
                part(&mut self.recv, region, key.dtype.size()),
            )
        };
        Ok(layout.expected.iter().map(wrong).sum())
    }

    fn corrupt(&mut self, case: &Case) -> anyhow::Result<bool> {
        let layout = self.layout(case);
        let Some(region) = layout.expected.iter().rev().find(|region| region.len > 0) else {
            return Ok(false);
        };
        let size = case.dtype.size();
        let last = ((region.len - 1) * size) as usize;
        part(&mut self.recv, region, size)[last] ^= data::fault_in(&case.data(0), &region.content);
        Ok(true)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.owns_comm) {
            // SAFETY: MPI is running, the communicator is from MPI_Comm_split, and every process of it comes here.
            unsafe { ffi::MPI_Comm_free(&mut self.comm) };
        }
        Ok(())
    }
}
