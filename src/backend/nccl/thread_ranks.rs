//! The ranks of one thread: an operation is started on each of them, and all are waited for together.

use std::{
    fmt,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use cudarc::driver::{CudaEvent, CudaGraph};

use super::{
    device::Device,
    rank_device::{PreparedOp, RankDevice},
};
use crate::{
    backend::{
        options::{Blocking, ExecOptions},
        rotation,
    },
    collective::Case,
    native::nccl::Nccl,
    units::{Bytes, Micros},
};

/// The ranks of one thread.
pub(super) struct ThreadRanks {
    pub(super) nccl: Arc<Nccl>,
    pub(super) devices: Vec<RankDevice>,
}

impl fmt::Display for ThreadRanks {
    /// Its ranks: `rank 1`, `ranks 2 to 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.devices[..] {
            [] => f.write_str("no rank"),
            [one] => write!(f, "rank {}", one.comm.rank()),
            [first, .., last] => write!(f, "ranks {} to {}", first.comm.rank(), last.comm.rank()),
        }
    }
}

/// Where a thread meets the other threads of its process, and the one that may also the other processes.
pub(super) struct ThreadBarrier<'a> {
    pub(super) threads: &'a Barrier,
    /// Waits for the other processes; the first thread alone has it.
    pub(super) processes: Option<&'a dyn Fn()>,
}

impl ThreadBarrier<'_> {
    /// Returns when every rank of the job has come.
    fn all_ranks(&self) {
        self.threads.wait();
        if let Some(processes) = self.processes {
            processes();
        }
        self.threads.wait();
    }
}

/// What a thread measured.
#[derive(Debug, Default)]
pub(super) struct ThreadTiming {
    /// From the first operation's start to the last one's end; without the barriers of [`Blocking::Iteration`].
    pub(super) elapsed: Duration,
    /// Until the last operation was handed to the GPU.
    pub(super) issued: Duration,
    /// Each iteration by the GPUs' clocks, the longest of them.
    pub(super) iteration_times: Vec<Micros>,
}

/// A case on each rank of the thread.
struct Round<'a> {
    thread_ranks: &'a ThreadRanks,
    aims: Vec<PreparedOp>,
    size: Bytes,
    largest: Bytes,
}

impl ThreadRanks {
    fn has_several(&self) -> bool {
        self.devices.len() > 1
    }

    fn round(&self, case: &Case) -> anyhow::Result<Round<'_>> {
        let aims = self
            .devices
            .iter()
            .map(|device_rank| device_rank.aim(case))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let largest = self
            .devices
            .first()
            .map_or(Ok(Bytes(0)), RankDevice::largest)?;
        Ok(Round {
            thread_ranks: self,
            aims,
            size: case.size(),
            largest,
        })
    }

    /// Waits until nothing runs on any of the GPUs. All are asked in turn: where one fails, another may never end.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        if let [device_rank] = &self.devices[..] {
            return device_rank.wait();
        }
        let mut running: Vec<&RankDevice> = self.devices.iter().collect();
        while !running.is_empty() {
            let mut still = Vec::with_capacity(running.len());
            for device_rank in running {
                if !device_rank.is_done()? {
                    still.push(device_rank);
                }
            }
            running = still;
            thread::yield_now();
        }
        Ok(())
    }

    /// Fills the buffers of `case` on all GPUs at once.
    pub(super) fn fill(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        self.devices
            .iter()
            .try_for_each(|device_rank| device_rank.fill(case, seed))?;
        self.wait()
    }

    /// Wrong elements on all GPUs.
    pub(super) fn count_wrong(&self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        self.devices
            .iter()
            .try_for_each(|device_rank| device_rank.check(case, seed))?;
        self.wait()?;
        self.devices.iter().map(RankDevice::counted).sum()
    }

    /// Runs `case` `times` times back to back.
    pub(super) fn run(
        &self,
        case: &Case,
        times: u32,
        meeting: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        self.by_hand(case, times, &ExecOptions::default(), meeting)
    }

    /// Runs `case` once in the way in which it is timed, for its data to be checked.
    pub(super) fn once(
        &self,
        case: &Case,
        exec_options: &ExecOptions,
        meeting: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        let exec_options = ExecOptions {
            replays: exec_options.replays.min(1),
            ..ExecOptions::default()
        };
        self.time(case, 1, &exec_options, meeting)
    }

    /// Times `iters` iterations of `case`.
    pub(super) fn time(
        &self,
        case: &Case,
        iters: u32,
        exec_options: &ExecOptions,
        meeting: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        if exec_options.replays > 0 {
            return self.replayed(case, iters, exec_options, meeting);
        }
        self.by_hand(case, iters, exec_options, meeting)
    }

    /// Every operation is started by this thread.
    fn by_hand(
        &self,
        case: &Case,
        iters: u32,
        exec_options: &ExecOptions,
        meeting: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        let round = self.round(case)?;
        let waits = exec_options.blocking == Blocking::Iteration;
        let marks = if exec_options.iteration_times {
            Marks::new(&self.devices, iters, waits)?
        } else {
            Marks::default()
        };
        if !self.has_several() {
            self.devices
                .iter()
                .try_for_each(|device_rank| device_rank.device.bind())?;
        }
        // The threads have started one after the other.
        meeting.all_ranks();
        let mut between = Duration::ZERO;
        let start = Instant::now();
        for iteration in 0..iters {
            marks.begin(&self.devices, iteration)?;
            round.iteration(iteration, exec_options, meeting)?;
            if waits {
                marks.end(&self.devices, iteration)?;
                self.wait()?;
                let ended = Instant::now();
                meeting.all_ranks();
                between += ended.elapsed();
            }
        }
        if !waits {
            marks.begin(&self.devices, iters)?;
        }
        let issued = start.elapsed().saturating_sub(between);
        self.wait()?;
        let elapsed = start.elapsed().saturating_sub(between);
        Ok(ThreadTiming {
            elapsed,
            issued,
            iteration_times: marks.iteration_times(exec_options.operations())?,
        })
    }

    /// The operations are captured as a graph, which is launched again and again.
    fn replayed(
        &self,
        case: &Case,
        iters: u32,
        exec_options: &ExecOptions,
        meeting: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        let round = self.round(case)?;
        self.devices
            .iter()
            .try_for_each(|device_rank| device_rank.device.begin_capture())?;
        (0..iters).try_for_each(|iteration| round.iteration(iteration, exec_options, meeting))?;
        let captured = self
            .devices
            .iter()
            .map(|device_rank| device_rank.device.end_capture());
        let graphs = captured.collect::<anyhow::Result<Vec<CudaGraph>>>()?;
        meeting.all_ranks();
        let start = Instant::now();
        for _ in 0..exec_options.replays {
            for (device_rank, graph) in self.devices.iter().zip(&graphs) {
                device_rank.device.launch(graph)?;
            }
        }
        let issued = start.elapsed();
        self.wait()?;
        Ok(ThreadTiming {
            elapsed: start.elapsed(),
            issued,
            iteration_times: Vec::new(),
        })
    }
}

impl Round<'_> {
    /// The operations of one iteration: one, or a group of several.
    #[inline]
    fn iteration(
        &self,
        iteration: u32,
        exec_options: &ExecOptions,
        meeting: &ThreadBarrier,
    ) -> anyhow::Result<()> {
        let operations = exec_options.operations();
        self.thread_ranks.nccl.grouped(operations > 1, || {
            for nth in 0..operations {
                self.operation(iteration.wrapping_mul(operations).wrapping_add(nth))?;
                match exec_options.blocking {
                    Blocking::AtTheEnd | Blocking::Iteration => {}
                    Blocking::Operation => self.thread_ranks.wait()?,
                    Blocking::OperationAndRanks => {
                        self.thread_ranks.wait()?;
                        meeting.all_ranks();
                    }
                }
            }
            Ok(())
        })
    }

    /// One operation, on all GPUs of the thread.
    #[inline]
    fn operation(&self, nth: u32) -> anyhow::Result<()> {
        let shift = rotation(self.size, self.largest, nth);
        let has_several = self.thread_ranks.has_several();
        let stages = self.aims.first().map_or(0, PreparedOp::stages);
        // NCCL makes the GPU of a communicator current itself; a copy of our own, and the null stream, need it to be.
        let needs_it = |(device_rank, aim): (&RankDevice, &PreparedOp)| {
            device_rank.device.has_null_stream() || aim.copies()
        };
        let binds = has_several
            && self
                .thread_ranks
                .devices
                .iter()
                .zip(&self.aims)
                .any(needs_it);
        (0..stages).try_for_each(|stage| {
            self.thread_ranks.nccl.grouped(has_several, || {
                for (device_rank, aim) in self.thread_ranks.devices.iter().zip(&self.aims) {
                    if binds {
                        device_rank.device.bind()?;
                    }
                    device_rank.start(aim, stage, shift)?;
                }
                Ok(())
            })
        })
    }
}

/// Points of time around iterations, on each GPU.
#[derive(Default)]
struct Marks {
    events: Vec<Vec<CudaEvent>>,
    /// Has each iteration an end of its own? Else the next one's beginning is its end.
    has_ends: bool,
}

impl Marks {
    fn new(devices: &[RankDevice], iters: u32, has_ends: bool) -> anyhow::Result<Marks> {
        let count = if has_ends { 2 * iters } else { iters + 1 };
        let of = |device: &Device| {
            (0..count)
                .map(|_| device.mark())
                .collect::<anyhow::Result<Vec<_>>>()
        };
        let events = devices
            .iter()
            .map(|device_rank| of(&device_rank.device))
            .collect::<anyhow::Result<_>>()?;
        Ok(Marks { events, has_ends })
    }

    /// From one iteration's mark to the next one's.
    fn stride(&self) -> usize {
        if self.has_ends { 2 } else { 1 }
    }

    #[inline]
    fn begin(&self, devices: &[RankDevice], iteration: u32) -> anyhow::Result<()> {
        self.set(devices, iteration as usize * self.stride())
    }

    /// Where iterations have ends of their own.
    fn end(&self, devices: &[RankDevice], iteration: u32) -> anyhow::Result<()> {
        self.set(devices, iteration as usize * self.stride() + 1)
    }

    #[inline]
    fn set(&self, devices: &[RankDevice], nth: usize) -> anyhow::Result<()> {
        self.events
            .iter()
            .zip(devices)
            .try_for_each(|(events, device_rank)| device_rank.device.set(&events[nth]))
    }

    /// Each iteration on the GPU that took longest, divided by its operations. All marks have passed.
    fn iteration_times(&self, operations: u32) -> anyhow::Result<Vec<Micros>> {
        let Some(events) = self.events.first().map(Vec::len) else {
            return Ok(Vec::new());
        };
        let lap = |first: usize| {
            let each = self
                .events
                .iter()
                .map(|events| Device::between(&events[first], &events[first + 1]));
            let longest = each
                .collect::<anyhow::Result<Vec<_>>>()?
                .into_iter()
                .fold(0.0, f64::max);
            anyhow::Ok(Micros(longest / f64::from(operations)))
        };
        (0..events - 1).step_by(self.stride()).map(lap).collect()
    }
}
