//! The ranks of one thread: an operation is started on each of them, and all are waited for
//! together.

use std::{
    fmt,
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use cudarc::driver::CudaGraph;

use super::{
    iteration_events::IterationEvents,
    polling::Polling,
    progress_marks::ProgressMarks,
    rank_device::{PreparedOp, RankDevice},
};
use crate::{
    backend::{
        options::{Blocking, ExecOptions},
        rotation,
    },
    collective::{Case, guard::Damage},
    native::nccl::Nccl,
    units::{Bytes, Micros},
};

/// The ranks of one thread.
pub(super) struct ThreadRanks {
    pub(super) nccl: Arc<Nccl>,
    pub(super) ranks: Vec<RankDevice>,
}

impl fmt::Display for ThreadRanks {
    /// Writes its ranks: `rank 1`, `ranks 2 to 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ranks[..] {
            [] => f.write_str("no rank"),
            [only] => write!(f, "rank {}", only.comm.rank()),
            [first, .., last] => write!(f, "ranks {} to {}", first.comm.rank(), last.comm.rank()),
        }
    }
}

/// The meeting point of a thread with the other threads of its process and, through the first one,
/// the other processes.
pub(super) struct ThreadBarrier<'a> {
    pub(super) threads: &'a Barrier,
    /// Waits for the other processes; only the first thread has it.
    pub(super) processes: Option<&'a dyn Fn()>,
}

impl ThreadBarrier<'_> {
    /// Returns `ranks` if theirs is the progress that counts for the process: those of the first
    /// thread.
    fn counted<'a>(&self, ranks: &'a [RankDevice]) -> Option<&'a [RankDevice]> {
        self.processes.is_some().then_some(ranks)
    }

    /// Returns when every rank of the job has arrived.
    fn wait_for_all_ranks(&self) {
        self.threads.wait();
        if let Some(processes) = self.processes {
            processes();
        }
        self.threads.wait();
    }
}

/// The measurements of a thread.
#[derive(Debug, Default)]
pub(super) struct ThreadTiming {
    /// From the first operation's start to the last one's end, without the barriers of
    /// [`Blocking::Iteration`].
    pub(super) elapsed: Duration,
    /// Until the last operation was handed to the GPU.
    pub(super) issued: Duration,
    /// Each iteration by the clock of the GPU that took longest.
    pub(super) iteration_times: Vec<Micros>,
}

/// A case that is ready to run on each rank of the thread.
struct PreparedCase<'a> {
    thread: &'a ThreadRanks,
    /// The operation of each rank.
    operations: Vec<PreparedOp>,
    size: Bytes,
    /// Size of the buffers.
    largest: Bytes,
}

impl ThreadRanks {
    fn has_several(&self) -> bool {
        self.ranks.len() > 1
    }

    fn prepare(&self, case: &Case) -> anyhow::Result<PreparedCase<'_>> {
        let operations = self.ranks.iter().map(|rank| rank.prepare(case));
        let operations = operations.collect::<anyhow::Result<Vec<_>>>()?;
        let largest = match self.ranks.first() {
            Some(first) => first.largest()?,
            None => Bytes(0),
        };
        Ok(PreparedCase {
            thread: self,
            operations,
            size: case.size(),
            largest,
        })
    }

    /// Waits until nothing runs on any of the GPUs. They are polled in turn, because if one fails,
    /// another may never end.
    ///
    /// # Errors
    /// Returns an error if a GPU, NCCL or a peer fails.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        self.wait_and(&|| {})
    }

    /// As [`ThreadRanks::wait`], and calls `meanwhile` again and again.
    fn wait_and(&self, meanwhile: &dyn Fn()) -> anyhow::Result<()> {
        if let [only] = &self.ranks[..] {
            return only.wait(meanwhile);
        }
        let mut running: Vec<&RankDevice> = self.ranks.iter().collect();
        let polling = Polling::start();
        while !running.is_empty() {
            let mut still_running = Vec::with_capacity(running.len());
            for rank in running {
                if !rank.is_done()? {
                    still_running.push(rank);
                }
            }
            running = still_running;
            meanwhile();
            polling.pause();
        }
        Ok(())
    }

    /// Fills the buffers of `case` on all GPUs at once.
    ///
    /// # Errors
    /// Returns an error if a GPU fails.
    pub(super) fn fill(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        for rank in &self.ranks {
            rank.fill(case, seed)?;
        }
        self.wait()
    }

    /// Fills the guard zones of `case` on all GPUs.
    ///
    /// # Errors
    /// Returns an error if a GPU fails.
    pub(super) fn fill_zones(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        self.ranks
            .iter()
            .try_for_each(|rank| rank.fill_zones(case, seed))
    }

    /// Returns what has changed where NCCL may change nothing, on all GPUs.
    ///
    /// # Errors
    /// Returns an error if a GPU fails.
    pub(super) fn damage(&self, case: &Case, seed: u64) -> anyhow::Result<Vec<Damage>> {
        for rank in &self.ranks {
            rank.check_sent(case, seed)?;
        }
        self.wait()?;
        let mut found = Vec::new();
        for rank in &self.ranks {
            found.extend(rank.changed_sent(case, seed)?);
            found.extend(rank.changed_zones(case, seed)?);
        }
        Ok(found)
    }

    /// Counts the wrong elements on all GPUs.
    ///
    /// # Errors
    /// Returns an error if a GPU fails.
    pub(super) fn count_wrong(&self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        for rank in &self.ranks {
            rank.check(case, seed)?;
        }
        self.wait()?;
        self.ranks.iter().map(RankDevice::counted).sum()
    }

    /// Runs `case` `times` times back to back.
    ///
    /// # Errors
    /// Returns an error if a GPU, NCCL or a peer fails.
    pub(super) fn run(
        &self,
        case: &Case,
        times: u32,
        barrier: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        self.time_operations(case, times, &ExecOptions::default(), barrier)
    }

    /// Runs `case` once in the way in which it is timed, so that its data can be checked.
    ///
    /// # Errors
    /// Returns an error if a GPU, NCCL or a peer fails.
    pub(super) fn once(
        &self,
        case: &Case,
        exec_options: &ExecOptions,
        barrier: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        let exec_options = ExecOptions {
            replays: exec_options.replays.min(1),
            ..ExecOptions::default()
        };
        self.time(case, 1, &exec_options, barrier)
    }

    /// Times `iters` iterations of `case`.
    ///
    /// # Errors
    /// Returns an error if a GPU, NCCL or a peer fails.
    pub(super) fn time(
        &self,
        case: &Case,
        iters: u32,
        exec_options: &ExecOptions,
        barrier: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        if exec_options.replays > 0 {
            self.time_graph(case, iters, exec_options, barrier)
        } else {
            self.time_operations(case, iters, exec_options, barrier)
        }
    }

    /// Times operations that this thread starts one by one.
    fn time_operations(
        &self,
        case: &Case,
        iters: u32,
        exec_options: &ExecOptions,
        barrier: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        let prepared = self.prepare(case)?;
        let waits_for_ranks = exec_options.blocking == Blocking::Iteration;
        let events = if exec_options.iteration_times {
            IterationEvents::new(&self.ranks, iters, waits_for_ranks)?
        } else {
            IterationEvents::default()
        };
        let counted = barrier.counted(&self.ranks);
        let marks = ProgressMarks::new(counted, iters, exec_options.operations())?;
        if let [only] = &self.ranks[..] {
            only.device.bind()?;
        }
        // The threads did not start at the same time.
        barrier.wait_for_all_ranks();
        let mut in_barriers = Duration::ZERO;
        let start = Instant::now();
        for iteration in 0..iters {
            events.record_begin(&self.ranks, iteration)?;
            prepared.start_iteration(iteration, exec_options, barrier)?;
            marks.after(iteration + 1)?;
            if waits_for_ranks {
                events.record_end(&self.ranks, iteration)?;
                self.wait()?;
                let ended = Instant::now();
                barrier.wait_for_all_ranks();
                in_barriers += ended.elapsed();
            }
        }
        if !waits_for_ranks {
            events.record_begin(&self.ranks, iters)?;
        }
        let issued = start.elapsed().saturating_sub(in_barriers);
        self.wait_and(&|| marks.look())?;
        let elapsed = start.elapsed().saturating_sub(in_barriers);
        marks.end(iters);
        Ok(ThreadTiming {
            elapsed,
            issued,
            iteration_times: events.iteration_times(exec_options.operations())?,
        })
    }

    /// Captures the operations as a graph, and times the launches of it.
    fn time_graph(
        &self,
        case: &Case,
        iters: u32,
        exec_options: &ExecOptions,
        barrier: &ThreadBarrier,
    ) -> anyhow::Result<ThreadTiming> {
        let prepared = self.prepare(case)?;
        for rank in &self.ranks {
            rank.device.begin_capture()?;
        }
        for iteration in 0..iters {
            prepared.start_iteration(iteration, exec_options, barrier)?;
        }
        let counted = barrier.counted(&self.ranks);
        let in_graph = iters.saturating_mul(exec_options.operations());
        let marks = ProgressMarks::new(counted, exec_options.replays, in_graph)?;
        let graphs = self.ranks.iter().map(|rank| rank.device.end_capture());
        let graphs = graphs.collect::<anyhow::Result<Vec<CudaGraph>>>()?;
        barrier.wait_for_all_ranks();
        let start = Instant::now();
        for replay in 0..exec_options.replays {
            for (rank, graph) in self.ranks.iter().zip(&graphs) {
                rank.device.launch(graph)?;
            }
            marks.after(replay + 1)?;
        }
        let issued = start.elapsed();
        self.wait_and(&|| marks.look())?;
        let elapsed = start.elapsed();
        marks.end(exec_options.replays);
        Ok(ThreadTiming {
            elapsed,
            issued,
            iteration_times: Vec::new(),
        })
    }
}

impl PreparedCase<'_> {
    /// Starts the operations of one iteration: one, or a group of several.
    #[inline]
    fn start_iteration(
        &self,
        iteration: u32,
        exec_options: &ExecOptions,
        barrier: &ThreadBarrier,
    ) -> anyhow::Result<()> {
        let operations = exec_options.operations();
        let first = iteration.wrapping_mul(operations);
        self.thread.nccl.grouped(operations > 1, || {
            for index in 0..operations {
                self.start_operation(first.wrapping_add(index))?;
                match exec_options.blocking {
                    Blocking::AtTheEnd | Blocking::Iteration => {}
                    Blocking::Operation => self.thread.wait()?,
                    Blocking::OperationAndRanks => {
                        self.thread.wait()?;
                        barrier.wait_for_all_ranks();
                    }
                }
            }
            Ok(())
        })
    }

    /// Starts one operation on all GPUs of the thread.
    #[inline]
    fn start_operation(&self, index: u32) -> anyhow::Result<()> {
        let shift = rotation(self.size, self.largest, index);
        let has_several = self.thread.has_several();
        let stages = self.operations.first().map_or(0, PreparedOp::stages);
        let binds = has_several && self.needs_current_gpu();
        for stage in 0..stages {
            self.thread.nccl.grouped(has_several, || {
                for (rank, operation) in self.thread.ranks.iter().zip(&self.operations) {
                    if binds {
                        rank.device.bind()?;
                    }
                    rank.start(operation, stage, shift)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Returns whether a GPU has to be made current before an operation starts on it. NCCL selects
    /// the GPU of a communicator itself; our own copies and the null stream do not.
    #[inline]
    fn needs_current_gpu(&self) -> bool {
        self.thread
            .ranks
            .iter()
            .zip(&self.operations)
            .any(|(rank, operation)| rank.device.has_null_stream() || operation.copies())
    }
}
