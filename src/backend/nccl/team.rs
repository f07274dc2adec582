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
    member::{Aim, Member},
};
use crate::{
    backend::{
        manner::{Blocking, Manner},
        rotation,
    },
    collective::Case,
    native::nccl::Nccl,
    units::{Bytes, Micros},
};

/// The ranks of one thread.
pub(super) struct Team {
    pub(super) nccl: Arc<Nccl>,
    pub(super) members: Vec<Member>,
}

impl fmt::Display for Team {
    /// Its ranks: `rank 1`, `ranks 2 to 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.members[..] {
            [] => f.write_str("no rank"),
            [one] => write!(f, "rank {}", one.comm.rank()),
            [first, .., last] => write!(f, "ranks {} to {}", first.comm.rank(), last.comm.rank()),
        }
    }
}

/// Where a thread meets the other threads of its process, and the one that may also the other processes.
pub(super) struct Meeting<'a> {
    pub(super) threads: &'a Barrier,
    /// Waits for the other processes; the first thread alone has it.
    pub(super) processes: Option<&'a dyn Fn()>,
}

impl Meeting<'_> {
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
pub(super) struct Clocked {
    /// From the first operation's start to the last one's end; without the barriers of [`Blocking::Iteration`].
    pub(super) elapsed: Duration,
    /// Until the last operation was handed to the GPU.
    pub(super) issued: Duration,
    /// Each iteration by the GPUs' clocks, the longest of them.
    pub(super) laps: Vec<Micros>,
}

/// A case on each rank of the thread.
struct Round<'a> {
    team: &'a Team,
    aims: Vec<Aim>,
    size: Bytes,
    largest: Bytes,
}

impl Team {
    fn has_several(&self) -> bool {
        self.members.len() > 1
    }

    fn round(&self, case: &Case) -> anyhow::Result<Round<'_>> {
        let aims = self
            .members
            .iter()
            .map(|member| member.aim(case))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let largest = self.members.first().map_or(Ok(Bytes(0)), Member::largest)?;
        Ok(Round {
            team: self,
            aims,
            size: case.size(),
            largest,
        })
    }

    /// Waits until nothing runs on any of the GPUs. All are asked in turn: where one fails, another may never end.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        if let [member] = &self.members[..] {
            return member.wait();
        }
        let mut running: Vec<&Member> = self.members.iter().collect();
        while !running.is_empty() {
            let mut still = Vec::with_capacity(running.len());
            for member in running {
                if !member.is_done()? {
                    still.push(member);
                }
            }
            running = still;
            thread::yield_now();
        }
        Ok(())
    }

    /// Fills the buffers of `case` on all GPUs at once.
    pub(super) fn fill(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        self.members
            .iter()
            .try_for_each(|member| member.fill(case, seed))?;
        self.wait()
    }

    /// Wrong elements on all GPUs.
    pub(super) fn count_wrong(&self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        self.members
            .iter()
            .try_for_each(|member| member.check(case, seed))?;
        self.wait()?;
        self.members.iter().map(Member::counted).sum()
    }

    /// Runs `case` `times` times back to back.
    pub(super) fn run(
        &self,
        case: &Case,
        times: u32,
        meeting: &Meeting,
    ) -> anyhow::Result<Clocked> {
        self.by_hand(case, times, &Manner::default(), meeting)
    }

    /// Runs `case` once in the way in which it is timed, for its data to be checked.
    pub(super) fn once(
        &self,
        case: &Case,
        manner: &Manner,
        meeting: &Meeting,
    ) -> anyhow::Result<Clocked> {
        let manner = Manner {
            replays: manner.replays.min(1),
            ..Manner::default()
        };
        self.time(case, 1, &manner, meeting)
    }

    /// Times `iters` iterations of `case`.
    pub(super) fn time(
        &self,
        case: &Case,
        iters: u32,
        manner: &Manner,
        meeting: &Meeting,
    ) -> anyhow::Result<Clocked> {
        if manner.replays > 0 {
            return self.replayed(case, iters, manner, meeting);
        }
        self.by_hand(case, iters, manner, meeting)
    }

    /// Every operation is started by this thread.
    fn by_hand(
        &self,
        case: &Case,
        iters: u32,
        manner: &Manner,
        meeting: &Meeting,
    ) -> anyhow::Result<Clocked> {
        let round = self.round(case)?;
        let waits = manner.blocking == Blocking::Iteration;
        let marks = if manner.laps {
            Marks::new(&self.members, iters, waits)?
        } else {
            Marks::default()
        };
        if !self.has_several() {
            self.members
                .iter()
                .try_for_each(|member| member.device.bind())?;
        }
        // The threads have started one after the other.
        meeting.all_ranks();
        let mut between = Duration::ZERO;
        let start = Instant::now();
        for iteration in 0..iters {
            marks.begin(&self.members, iteration)?;
            round.iteration(iteration, manner, meeting)?;
            if waits {
                marks.end(&self.members, iteration)?;
                self.wait()?;
                let ended = Instant::now();
                meeting.all_ranks();
                between += ended.elapsed();
            }
        }
        if !waits {
            marks.begin(&self.members, iters)?;
        }
        let issued = start.elapsed().saturating_sub(between);
        self.wait()?;
        let elapsed = start.elapsed().saturating_sub(between);
        Ok(Clocked {
            elapsed,
            issued,
            laps: marks.laps(manner.operations())?,
        })
    }

    /// The operations are captured as a graph, which is launched again and again.
    fn replayed(
        &self,
        case: &Case,
        iters: u32,
        manner: &Manner,
        meeting: &Meeting,
    ) -> anyhow::Result<Clocked> {
        let round = self.round(case)?;
        self.members
            .iter()
            .try_for_each(|member| member.device.begin_capture())?;
        (0..iters).try_for_each(|iteration| round.iteration(iteration, manner, meeting))?;
        let captured = self
            .members
            .iter()
            .map(|member| member.device.end_capture());
        let graphs = captured.collect::<anyhow::Result<Vec<CudaGraph>>>()?;
        meeting.all_ranks();
        let start = Instant::now();
        for _ in 0..manner.replays {
            for (member, graph) in self.members.iter().zip(&graphs) {
                member.device.launch(graph)?;
            }
        }
        let issued = start.elapsed();
        self.wait()?;
        Ok(Clocked {
            elapsed: start.elapsed(),
            issued,
            laps: Vec::new(),
        })
    }
}

impl Round<'_> {
    /// The operations of one iteration: one, or a group of several.
    #[inline]
    fn iteration(&self, iteration: u32, manner: &Manner, meeting: &Meeting) -> anyhow::Result<()> {
        let operations = manner.operations();
        self.team.nccl.grouped(operations > 1, || {
            for nth in 0..operations {
                self.operation(iteration.wrapping_mul(operations).wrapping_add(nth))?;
                match manner.blocking {
                    Blocking::AtTheEnd | Blocking::Iteration => {}
                    Blocking::Operation => self.team.wait()?,
                    Blocking::OperationAndRanks => {
                        self.team.wait()?;
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
        let has_several = self.team.has_several();
        let stages = self.aims.first().map_or(0, Aim::stages);
        // NCCL makes the GPU of a communicator current itself; a copy of our own, and the null stream, need it to be.
        let needs_it =
            |(member, aim): (&Member, &Aim)| member.device.has_null_stream() || aim.copies();
        let binds = has_several && self.team.members.iter().zip(&self.aims).any(needs_it);
        (0..stages).try_for_each(|stage| {
            self.team.nccl.grouped(has_several, || {
                for (member, aim) in self.team.members.iter().zip(&self.aims) {
                    if binds {
                        member.device.bind()?;
                    }
                    member.start(aim, stage, shift)?;
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
    fn new(members: &[Member], iters: u32, has_ends: bool) -> anyhow::Result<Marks> {
        let count = if has_ends { 2 * iters } else { iters + 1 };
        let of = |device: &Device| {
            (0..count)
                .map(|_| device.mark())
                .collect::<anyhow::Result<Vec<_>>>()
        };
        let events = members
            .iter()
            .map(|member| of(&member.device))
            .collect::<anyhow::Result<_>>()?;
        Ok(Marks { events, has_ends })
    }

    /// From one iteration's mark to the next one's.
    fn stride(&self) -> usize {
        if self.has_ends { 2 } else { 1 }
    }

    #[inline]
    fn begin(&self, members: &[Member], iteration: u32) -> anyhow::Result<()> {
        self.set(members, iteration as usize * self.stride())
    }

    /// Where iterations have ends of their own.
    fn end(&self, members: &[Member], iteration: u32) -> anyhow::Result<()> {
        self.set(members, iteration as usize * self.stride() + 1)
    }

    #[inline]
    fn set(&self, members: &[Member], nth: usize) -> anyhow::Result<()> {
        self.events
            .iter()
            .zip(members)
            .try_for_each(|(events, member)| member.device.set(&events[nth]))
    }

    /// Each iteration on the GPU that took longest, divided by its operations. All marks have passed.
    fn laps(&self, operations: u32) -> anyhow::Result<Vec<Micros>> {
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
