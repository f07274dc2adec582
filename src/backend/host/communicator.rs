//! [`Communicator`]: collectives on slices of host memory, for programs of one's own. They run
//! through the same calls as those that are measured.

#![expect(
    unsafe_code,
    reason = "rsmpi has no MPI_IN_PLACE, and its calls are typed"
)]

use std::{cell::RefCell, ffi::c_int, marker::PhantomData, slice};

use mpi::ffi;

use super::{
    call::{call_for, check_code},
    datatype::datatype,
    operation::Operation,
    parts::Parts,
    reduction::{self, Reductions},
    started::StartedOperation,
};
use crate::{
    backend::{Element, SliceOperation},
    collective::{BufferMode, Case, Collective, Counts, data::RedOp},
    exit::{Code, Failure},
    units::counted,
    world,
};

/// All processes, as ranks that run collectives on slices. Only the thread that started MPI may use
/// it.
pub struct Communicator {
    rank: u64,
    ranks: u64,
    reductions: RefCell<Reductions>,
    /// MPI is called by one thread, so this must not move to another.
    _thread: PhantomData<*const ()>,
}

impl Communicator {
    /// Opens the communicator of all processes.
    ///
    /// # Errors
    /// Returns an error if this thread has not started MPI.
    pub fn open() -> anyhow::Result<Communicator> {
        if !world::mpi::is_running_in_this_thread() {
            let what = "collectives on slices need MPI, which has not started these ranks. Start \
                        them with mpirun or srun, without the variables of another launcher, such \
                        as RANK and WORLD_SIZE";
            return Err(Failure::on_all_ranks(Code::Launch, what));
        }
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: MPI is running; each call writes one int.
        unsafe {
            ffi::MPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank);
            ffi::MPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut ranks);
        }
        Ok(Communicator {
            rank: rank as u64,
            ranks: ranks as u64,
            reductions: RefCell::default(),
            _thread: PhantomData,
        })
    }

    /// Runs `what` from `send` to `recv`. A buffer that this rank neither sends from nor receives
    /// into may have any length.
    ///
    /// # Errors
    /// Returns an error if a buffer has the wrong length, or if MPI cannot do it.
    pub fn run<T: Element>(
        &self,
        what: SliceOperation,
        send: &[T],
        recv: &mut [T],
    ) -> anyhow::Result<()> {
        refuse_uneven(what)?;
        let count = self.count(what.collective, send.len(), recv.len());
        let case = self.case::<T>(what, count, BufferMode::OutOfPlace)?;
        let (sends, receives) = self.lengths(&case);
        require_length(&case, "send buffer", send.len(), sends)?;
        require_length(&case, "receive buffer", recv.len(), receives)?;
        let parts = Parts::default();
        // SAFETY: the slices are as long as the operation needs.
        unsafe { self.operate(&case, &parts, send.as_ptr(), recv.as_mut_ptr())? };
        if case.collective == Collective::Broadcast && self.is_root(&case) {
            // MPI has one buffer there.
            recv.copy_from_slice(send);
        }
        Ok(())
    }

    /// Runs `what` in `buffer`, which is as long as the longer buffer out of place. If the other
    /// one is a single chunk, it is this rank's chunk of `buffer`.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn run_in_place<T: Element>(
        &self,
        what: SliceOperation,
        buffer: &mut [T],
    ) -> anyhow::Result<()> {
        refuse_uneven(what)?;
        let Counts { send, recv, .. } = counts(what.collective, 1, self.ranks as usize);
        let chunks = send.max(recv) as usize;
        let count = buffer.len() / chunks;
        let case = self.case::<T>(what, count, BufferMode::InPlace)?;
        if buffer.len() != count * chunks {
            let length = counted(buffer.len(), "element");
            let what =
                format!("the buffer has {length}, which is no chunk for each of {chunks} ranks");
            return Err(refusal(&case, &what));
        }
        let first = buffer.as_mut_ptr();
        // SAFETY: the slice is as long as the operation needs.
        unsafe { self.operate(&case, &Parts::default(), first.cast_const(), first)? };
        if case.collective == Collective::ReduceScatter {
            // MPI leaves the result at the start, NCCL at the rank's chunk.
            buffer.copy_within(..count, self.rank as usize * count);
        }
        Ok(())
    }

    /// Sends the next `sent[r]` elements of `send` to each rank r, and receives the next
    /// `received[r]` elements of `recv` from it.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn alltoallv<T: Element>(
        &self,
        send: &[T],
        sent: &[usize],
        recv: &mut [T],
        received: &[usize],
    ) -> anyhow::Result<()> {
        let what = SliceOperation::new(Collective::AllToAllV);
        let case = self.case::<T>(what, 0, BufferMode::OutOfPlace)?;
        let ranks = self.ranks as usize;
        require_length(&case, "list of counts to send", sent.len(), Some(ranks))?;
        require_length(
            &case,
            "list of counts to receive",
            received.len(),
            Some(ranks),
        )?;
        require_length(&case, "send buffer", send.len(), sum(sent))?;
        require_length(&case, "receive buffer", recv.len(), sum(received))?;
        require_count(&case, send.len().max(recv.len()))?;
        let parts = Parts::one_after_another(sent, received);
        // SAFETY: the slices are as long as their counts add up to.
        unsafe { self.operate(&case, &parts, send.as_ptr(), recv.as_mut_ptr()) }
    }

    /// Starts an all_reduce in `buffer`, and returns while it runs.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn start_all_reduce<T: Element>(
        &self,
        buffer: Vec<T>,
        redop: RedOp,
    ) -> anyhow::Result<StartedOperation<'_, T>> {
        let what = SliceOperation::new(Collective::AllReduce).reducing(redop);
        let case = self.case::<T>(what, buffer.len(), BufferMode::InPlace)?;
        let handle = self.reductions.borrow_mut().of(&case);
        StartedOperation::all_reduce(buffer, case, self.rank, handle)
    }

    /// Frees what it holds, if MPI is still running.
    pub fn close(mut self) {
        if world::mpi::is_running_in_this_thread() {
            self.reductions.get_mut().free();
        }
    }

    /// Runs the operation of `case`. In place, `send` is `recv`.
    ///
    /// # Safety
    /// The pointers are valid for the elements that `case` and `parts` send and receive on this
    /// rank.
    unsafe fn operate<T: Element>(
        &self,
        case: &Case,
        parts: &Parts,
        send: *const T,
        recv: *mut T,
    ) -> anyhow::Result<()> {
        let in_place = case.buffer_mode == BufferMode::InPlace;
        let (send_offset, recv_offset) = self.offsets(case);
        let mut operation = Operation {
            in_place,
            base: recv.cast(),
            send: send.wrapping_add(send_offset).cast(),
            recv: recv.wrapping_add(recv_offset).cast(),
            copy: std::ptr::null_mut(),
            count: case.counts.param as c_int,
            element: size_of::<T>(),
            dtype: datatype(T::DTYPE, case.redop.is_some()),
            redop: self.reductions.borrow_mut().of(case),
            rank: self.rank as c_int,
            ranks: self.ranks as c_int,
            root: case.root.unwrap_or(0) as c_int,
            // SAFETY: the constant is initialised before main and never written.
            comm: unsafe { ffi::RSMPI_COMM_WORLD },
            parts,
        };
        let scaled: Vec<T>;
        if let Some(factor) = reduction::factor(case, self.rank) {
            // SAFETY: by this function's contract; every reduction sends from that many elements on
            // every rank.
            let input = unsafe { slice::from_raw_parts(send, case.counts.send as usize) };
            scaled = reduction::scaled(input, factor);
            operation.send = scaled.as_ptr().cast();
            operation.in_place = false;
        }
        let call = call_for(case.collective);
        // SAFETY: by this function's contract.
        let code = unsafe { (call.run)(&operation) };
        check_code(call.names[usize::from(in_place)], code, case)
    }

    /// Returns where the input and the result of this rank begin in their buffers.
    fn offsets(&self, case: &Case) -> (usize, usize) {
        if case.buffer_mode == BufferMode::OutOfPlace {
            return (0, 0);
        }
        let layout = case.layout(self.rank);
        (layout.send_offset as usize, layout.recv_offset as usize)
    }

    /// Returns the count that MPI is given for buffers of these lengths.
    fn count(&self, collective: Collective, sent: usize, received: usize) -> usize {
        let Counts { send, recv, .. } = counts(collective, 1, self.ranks as usize);
        match collective {
            // Ranks other than the root send nothing.
            Collective::Broadcast | Collective::Scatter => received / recv as usize,
            _ => sent / send as usize,
        }
    }

    /// Returns the case of an operation with `count` elements.
    fn case<T: Element>(
        &self,
        what: SliceOperation,
        count: usize,
        buffer_mode: BufferMode,
    ) -> anyhow::Result<Case> {
        let case = Case {
            collective: what.collective,
            dtype: T::DTYPE,
            redop: what.redop,
            root: what.root,
            buffer_mode,
            ranks: self.ranks,
            counts: counts(what.collective, count, self.ranks as usize),
            traffic: None,
        };
        if let Some(why) = self.impossible(&case) {
            return Err(refusal(&case, &why));
        }
        require_count(&case, case.counts.send.max(case.counts.recv) as usize)?;
        Ok(case)
    }

    /// Returns why MPI cannot run `case`; `None` if it can.
    fn impossible(&self, case: &Case) -> Option<String> {
        let spec = case.collective.spec();
        if spec.reduces != case.redop.is_some() || spec.rooted != case.root.is_some() {
            return Some(
                "a reduction needs an operation, a collective from or to one rank a root, and \
                 others neither"
                    .into(),
            );
        }
        if let Some(root) = case.root.filter(|root| u64::from(*root) >= self.ranks) {
            return Some(format!(
                "there is no rank {root}. Ranks are 0 to {}",
                self.ranks - 1
            ));
        }
        if spec.powers_of_two && !self.ranks.is_power_of_two() {
            return Some(format!(
                "{} ranks are not a power of 2. Start 2, 4 or 8",
                self.ranks
            ));
        }
        reduction::unsupported(case.dtype, case.redop?)
    }

    /// Returns the lengths that the send and the receive buffer must have on this rank; `None` for
    /// one that it does not use.
    fn lengths(&self, case: &Case) -> (Option<usize>, Option<usize>) {
        let send = Some(case.counts.send as usize);
        let recv = Some(case.counts.recv as usize);
        match case.collective {
            _ if self.is_root(case) => (send, recv),
            Collective::Broadcast | Collective::Scatter => (None, recv),
            Collective::Reduce | Collective::Gather => (send, None),
            _ => (send, recv),
        }
    }

    fn is_root(&self, case: &Case) -> bool {
        case.root.map(u64::from) == Some(self.rank)
    }
}

/// Returns the elements that a rank sends and receives if MPI is given `count`; a root may send or
/// receive less.
fn counts(collective: Collective, count: usize, ranks: usize) -> Counts {
    let (one, all) = (count as u64, count.saturating_mul(ranks) as u64);
    let (send, recv) = match collective {
        Collective::AllReduce
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::SendRecv => (one, one),
        Collective::AllGather | Collective::Gather | Collective::HyperCube => (one, all),
        Collective::ReduceScatter | Collective::Scatter => (all, one),
        // The parts of an alltoallv have counts of their own.
        Collective::AllToAll | Collective::AllToAllV => (all, all),
    };
    Counts {
        send,
        recv,
        param: one,
    }
}

fn sum(counts: &[usize]) -> Option<usize> {
    // Counts that are too large for their sum do not fit any buffer.
    let sum = counts
        .iter()
        .try_fold(0_usize, |sum, count| sum.checked_add(*count));
    Some(sum.unwrap_or(usize::MAX))
}

/// Refuses a collective that needs counts for each rank.
fn refuse_uneven(what: SliceOperation) -> anyhow::Result<()> {
    let name = what.collective;
    if name.spec().uneven {
        let what = format!("{name}: each rank has counts of its own. Call Communicator::{name}");
        return Err(Failure::on_this_rank(Code::Usage, what));
    }
    Ok(())
}

fn refusal(case: &Case, why: &str) -> anyhow::Error {
    Failure::on_this_rank(Code::Usage, format!("{}: {why}", case.collective))
}

fn require_length(
    case: &Case,
    name: &str,
    length: usize,
    needed: Option<usize>,
) -> anyhow::Result<()> {
    match needed {
        Some(needed) if needed != length => {
            let length = counted(length, "element");
            let what = format!("the {name} has {length} but needs {needed}");
            Err(refusal(case, &what))
        }
        _ => Ok(()),
    }
}

/// Refuses more elements than MPI's counts and offsets have room for.
fn require_count(case: &Case, elements: usize) -> anyhow::Result<()> {
    if elements > c_int::MAX as usize {
        let what = format!("{elements} elements do not fit MPI's counts. Send fewer at a time");
        return Err(refusal(case, &what));
    }
    Ok(())
}
