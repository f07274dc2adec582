//! The backend that the sweep drives, and on which the others on host memory build.

#![expect(
    unsafe_code,
    reason = "communicators are handles of MPI, and operations run on addresses"
)]

use std::{ffi::c_int, time::Instant};

use mpi::ffi;

use super::{
    call::{self, MpiCall, call_for},
    datatype::datatype,
    guarded_buffer::GuardedBuffer,
    operation::Operation,
    parts::Parts,
    reduction::{self, Reductions},
};
use crate::{
    backend::{Backend, Timing, Waived, check_possible, options::ExecOptions, rotation},
    collective::{
        BufferMode, Case, Collective, FaultTarget, Layout, data,
        guard::{Damage, ZONE},
    },
    units::{Bytes, Micros},
    world::progress,
};

/// Opens the backend of rank `rank`: of all processes, or of those that pass the same `group`. The
/// rank can hold two buffers of `capacity`, if that is known. Of `exec`, only operations per
/// iteration and the timing of each iteration have an effect. Every process calls it; MPI is
/// running.
///
/// # Errors
/// Returns an error if this binary is built without MPI.
pub fn open(
    rank: u64,
    group: Option<u32>,
    capacity: Option<Bytes>,
    exec: ExecOptions,
) -> anyhow::Result<Box<dyn Backend>> {
    let host = match group {
        None => Host::new(rank, capacity),
        // Ranks keep their order.
        Some(group) => Host::in_group(rank, group, 0, capacity),
    };
    Ok(Box::new(Host { exec, ..host }))
}

/// Checks whether MPI can run `case` on host memory.
///
/// # Errors
/// Returns the reason if it cannot, which is the same on every rank.
pub fn supports(case: &Case) -> Result<(), Waived> {
    check_possible(case)?;
    if let Some(redop) = case.redop
        && let Some(why) = reduction::unsupported(case.dtype, redop)
    {
        return Err(Waived(why));
    }
    if largest_count(case) > c_int::MAX as u64 {
        let what = "more than 2^31-1 elements do not fit MPI's counts";
        return Err(Waived(what.into()));
    }
    Ok(())
}

/// Returns the largest count or offset that MPI is given for `case`.
fn largest_count(case: &Case) -> u64 {
    match case.collective {
        // In its last round a hypercube sends half of everything in one message.
        Collective::HyperCube => case.counts.recv / 2,
        // The parts of an alltoallv have offsets.
        Collective::AllToAllV => case.counts.send.max(case.counts.recv),
        _ => case.counts.param,
    }
}

/// MPI on host memory.
pub(super) struct Host {
    pub(super) rank: u64,
    comm: ffi::MPI_Comm,
    /// Whether `comm` belongs to this backend, which then frees it.
    owns_comm: bool,
    pub(super) send: GuardedBuffer,
    pub(super) recv: GuardedBuffer,
    largest: Bytes,
    /// The largest buffer of which this rank can hold two, if known.
    capacity: Option<Bytes>,
    exec: ExecOptions,
    reductions: Reductions,
    /// The input of a reduction that multiplies it first: MPI's send buffer in such a case, also in
    /// place.
    pub(super) scaled: GuardedBuffer,
}

/// The values that all operations of a case share.
pub(super) struct Prepared {
    call: MpiCall,
    layout: Layout,
    parts: Parts,
    redop: ffi::MPI_Op,
    /// What the input is multiplied by first.
    factor: Option<f64>,
}

impl Host {
    /// Returns the backend of rank `rank` of all processes.
    fn new(rank: u64, capacity: Option<Bytes>) -> Host {
        // SAFETY: the constant is initialised before main and never written.
        let comm = unsafe { ffi::RSMPI_COMM_WORLD };
        Host {
            rank,
            comm,
            owns_comm: false,
            send: GuardedBuffer::default(),
            recv: GuardedBuffer::default(),
            largest: Bytes(0),
            capacity,
            exec: ExecOptions::default(),
            reductions: Reductions::default(),
            scaled: GuardedBuffer::default(),
        }
    }

    /// Returns the backend of rank `rank` of the processes that pass the same `group`, which have
    /// the order of their `key`. Every process calls it; MPI is running.
    pub(super) fn in_group(rank: u64, group: u32, key: u32, capacity: Option<Bytes>) -> Host {
        let mut host = Host::new(rank, capacity);
        let (color, key) = (group as c_int, key as c_int);
        // SAFETY: MPI is running and every process calls this; the call writes one handle.
        unsafe { ffi::MPI_Comm_split(ffi::RSMPI_COMM_WORLD, color, key, &mut host.comm) };
        host.owns_comm = true;
        host
    }

    /// Returns the layout of this rank's buffers, as MPI leaves them.
    pub(super) fn layout(&self, case: &Case) -> Layout {
        let call = call_for(case.collective);
        (call.adapt)(case, self.rank, case.layout(self.rank))
    }

    /// Prepares the operations of `case`.
    pub(super) fn prepare(&mut self, case: &Case) -> anyhow::Result<Prepared> {
        anyhow::ensure!(
            case.size() <= self.largest,
            "{case} does not fit into the buffers of {}",
            self.largest
        );
        let factor = reduction::factor(case, self.rank);
        if factor.is_some() {
            self.scaled.resize(case.size())?;
        }
        Ok(Prepared {
            factor,
            call: call_for(case.collective),
            layout: case.layout(self.rank),
            parts: Parts::new(case, self.rank),
            redop: self.reductions.of(case),
        })
    }

    /// Runs operation `number` of `case`.
    fn operate(&mut self, case: &Case, prepared: &Prepared, number: u32) -> anyhow::Result<()> {
        let call = &prepared.call;
        let operation = self.ready(case, prepared, number);
        // SAFETY: the buffers hold `largest` bytes, which is at least the shift plus the case's
        // size, and the layout's offsets lie inside that size.
        let code = unsafe { (call.run)(&operation) };
        if code != 0 {
            let name = call.names[usize::from(operation.in_place)];
            return Err(call::failure(name, code, case));
        }
        Ok(())
    }

    /// Returns operation `number` of `case`, whose input is as MPI needs it.
    pub(super) fn ready<'a>(
        &mut self,
        case: &Case,
        prepared: &'a Prepared,
        number: u32,
    ) -> Operation<'a> {
        let shift = rotation(case.size(), self.largest, number);
        let mut operation = self.operation(case, prepared, shift);
        if let Some(factor) = prepared.factor {
            let length = (case.counts.send * case.dtype.size()) as usize;
            // SAFETY: the layout has that many bytes of input there, in one of the other buffers.
            let input = unsafe { std::slice::from_raw_parts(operation.send.cast::<u8>(), length) };
            let scaled = self.scaled.first(length);
            reduction::scale(case.dtype, factor, input, scaled);
            operation.send = scaled.as_ptr().cast();
            operation.in_place = false;
        }
        operation
    }

    /// Returns the operation of `case` with its buffers moved by `shift` bytes.
    fn operation<'a>(&mut self, case: &Case, prepared: &'a Prepared, shift: u64) -> Operation<'a> {
        let layout = &prepared.layout;
        let element = case.dtype.size();
        let send_buffer = self.send.start();
        let recv_buffer = self.recv.start();
        let base = recv_buffer.wrapping_add(shift as usize);
        let in_place = case.buffer_mode == BufferMode::InPlace;
        let send = if in_place {
            base.wrapping_add((layout.send_offset * element) as usize)
        } else {
            send_buffer.wrapping_add(shift as usize)
        };
        let recv = base.wrapping_add((layout.recv_offset * element) as usize);
        Operation {
            in_place,
            base: base.cast(),
            send: send.cast(),
            recv: recv.cast(),
            copy: send_buffer.wrapping_add(shift as usize).cast(),
            count: case.counts.param as c_int,
            element: element as usize,
            dtype: datatype(case.dtype, case.redop.is_some()),
            redop: prepared.redop,
            rank: self.rank as c_int,
            ranks: case.ranks as c_int,
            root: case.root.unwrap_or(0) as c_int,
            comm: self.comm,
            parts: &prepared.parts,
        }
    }
}

/// Returns the time of an operation in each iteration, of which each has `operations` and ends at
/// one of `ends`.
fn times_between(start: Instant, ends: &[Instant], operations: u32) -> Vec<Micros> {
    let mut times = Vec::with_capacity(ends.len());
    let mut begin = start;
    for &end in ends {
        times.push(Micros(Micros::from(end - begin).0 / f64::from(operations)));
        begin = end;
    }
    times
}

impl Backend for Host {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        supports(case)
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        let zones = 2 * ZONE;
        Ok(self
            .capacity
            .map(|bytes| Bytes(bytes.0.saturating_sub(zones))))
    }

    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()> {
        for buffer in [&mut self.send, &mut self.recv] {
            buffer.resize(largest)?;
        }
        self.largest = largest;
        Ok(())
    }

    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let layout = self.layout(case);
        let key = case.data(seed);
        let size = key.dtype.size();
        for region in &layout.send {
            let bytes = self.send.part(region, size);
            data::write_noting(&key, &region.content, bytes, &progress::tick);
        }
        for region in &layout.recv {
            let bytes = self.recv.part(region, size);
            data::write_noting(&key, &region.content, bytes, &progress::tick);
        }
        Ok(())
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        let prepared = self.prepare(case)?;
        progress::begin(times.into());
        let start = Instant::now();
        for number in 0..times {
            self.operate(case, &prepared, number)?;
            progress::done(u64::from(number) + 1);
        }
        Ok(Timing::new(start.elapsed(), times))
    }

    fn time(&mut self, case: &Case, iters: u32, _: &dyn Fn()) -> anyhow::Result<Timing> {
        let operations = self.exec.operations();
        if !self.exec.iteration_times {
            return self.run(case, iters.saturating_mul(operations));
        }
        let prepared = self.prepare(case)?;
        let mut ends = Vec::with_capacity(iters as usize);
        let mut number = 0;
        progress::begin(u64::from(iters) * u64::from(operations));
        let start = Instant::now();
        for _ in 0..iters {
            for _ in 0..operations {
                self.operate(case, &prepared, number)?;
                number += 1;
                progress::done(number.into());
            }
            ends.push(Instant::now());
        }
        let elapsed = start.elapsed();
        Ok(Timing {
            iteration_times: times_between(start, &ends, operations),
            ..Timing::new(elapsed, number)
        })
    }

    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let layout = self.layout(case);
        let key = case.data(seed);
        let mut wrong = 0;
        for region in &layout.expected {
            let bytes = self.recv.part(region, key.dtype.size());
            wrong += data::count_wrong_noting(&key, &region.content, bytes, &progress::tick);
        }
        Ok(wrong)
    }

    fn guard(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        self.fill_zones(case, seed)
    }

    fn damage(&mut self, case: &Case, seed: u64) -> anyhow::Result<Vec<Damage>> {
        Ok(self.find_damage(case, seed))
    }

    fn corrupt(&mut self, case: &Case, target: FaultTarget) -> anyhow::Result<bool> {
        let byte = match target {
            FaultTarget::Data => self.last_checked(case),
            FaultTarget::Send => self.last_sent(case),
            FaultTarget::Beside(buffer, side) => self.byte_beside(case, buffer, side),
        };
        let Some((byte, fault)) = byte else {
            return Ok(false);
        };
        *byte ^= fault;
        Ok(true)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.reductions.free();
        if std::mem::take(&mut self.owns_comm) {
            // SAFETY: MPI is running, the communicator is from MPI_Comm_split, and every process of
            // it comes here.
            unsafe { ffi::MPI_Comm_free(&mut self.comm) };
        }
        Ok(())
    }
}
