//! The ranks of one thread: an operation is started on each of them, and all are waited for together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cudarc::driver::{CudaEvent, CudaGraph};

use super::{
    device::Device,
    gate::Gate,
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

/// Where a thread meets the other threads of its process, and the one that may also the other processes.
pub(super) struct Meeting<'a> {
    pub(super) gate: &'a Gate,
    /// Waits for the other processes; the first thread alone has it.
    pub(super) processes: Option<&'a dyn Fn()>,
}

impl Meeting<'_> {
    /// Returns when every rank of the job has come.
    fn all_ranks(&self) -> anyhow::Result<()> {
        self.gate.wait()?;
        if let Some(processes) = self.processes {
            processes();
        }
        self.gate.wait()
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
        let aims = self.members.iter().map(|member| member.aim(case)).collect::<anyhow::Result<Vec<_>>>()?;
        let largest = self.members.first().map_or(Ok(Bytes(0)), Member::largest)?;
        Ok(Round { team: self, aims, size: case.size(), largest })
    }

    /// Waits until nothing runs on any of the GPUs.
    pub(super) fn wait(&self, gate: &Gate) -> anyhow::Result<()> {
        self.members.iter().try_for_each(|member| member.wait(&|| gate.check()))
    }

    /// Fills the buffers of `case` on all GPUs at once.
    pub(super) fn fill(&self, case: &Case, seed: u64, gate: &Gate) -> anyhow::Result<()> {
        self.members.iter().try_for_each(|member| member.fill(case, seed))?;
        self.wait(gate)
    }

    /// Wrong elements on all GPUs.
    pub(super) fn count_wrong(&self, case: &Case, seed: u64, gate: &Gate) -> anyhow::Result<u64> {
        self.members.iter().try_for_each(|member| member.check(case, seed))?;
        self.wait(gate)?;
        self.members.iter().map(Member::counted).sum()
    }

    /// Runs `case` `times` times back to back.
    pub(super) fn run(&self, case: &Case, times: u32, meeting: &Meeting) -> anyhow::Result<Clocked> {
        self.by_hand(case, times, &Manner::default(), meeting)
    }

    /// Times `iters` iterations of `case`.
    pub(super) fn time(&self, case: &Case, iters: u32, manner: &Manner, meeting: &Meeting) -> anyhow::Result<Clocked> {
        if manner.replays > 0 {
            return self.replayed(case, iters, manner, meeting);
        }
        self.by_hand(case, iters, manner, meeting)
    }

    /// Every operation is started by this thread.
    fn by_hand(&self, case: &Case, iters: u32, manner: &Manner, meeting: &Meeting) -> anyhow::Result<Clocked> {
        let round = self.round(case)?;
        let marks = if manner.laps { Marks::new(&self.members, iters)? } else { Marks::default() };
        if !self.has_several() {
            self.members.iter().try_for_each(|member| member.device.bind())?;
        }
        meeting.gate.wait()?;
        let mut between = Duration::ZERO;
        let start = Instant::now();
        for iteration in 0..iters {
            marks.set(&self.members, iteration)?;
            round.iteration(iteration, manner, meeting)?;
            if manner.blocking == Blocking::Iteration {
                self.wait(meeting.gate)?;
                let ended = Instant::now();
                meeting.all_ranks()?;
                between += ended.elapsed();
            }
        }
        marks.set(&self.members, iters)?;
        let issued = start.elapsed();
        self.wait(meeting.gate)?;
        let elapsed = start.elapsed().saturating_sub(between);
        Ok(Clocked { elapsed, issued, laps: marks.laps()? })
    }

    /// The operations are captured as a graph, which is launched again and again.
    fn replayed(&self, case: &Case, iters: u32, manner: &Manner, meeting: &Meeting) -> anyhow::Result<Clocked> {
        let round = self.round(case)?;
        self.members.iter().try_for_each(|member| member.device.begin_capture())?;
        (0..iters).try_for_each(|iteration| round.iteration(iteration, manner, meeting))?;
        let captured = self.members.iter().map(|member| member.device.end_capture());
        let graphs = captured.collect::<anyhow::Result<Vec<CudaGraph>>>()?;
        meeting.all_ranks()?;
        let start = Instant::now();
        for _ in 0..manner.replays {
            for (member, graph) in self.members.iter().zip(&graphs) {
                member.device.launch(graph)?;
            }
        }
        let issued = start.elapsed();
        self.wait(meeting.gate)?;
        Ok(Clocked { elapsed: start.elapsed(), issued, laps: Vec::new() })
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
                    Blocking::Operation => self.team.wait(meeting.gate)?,
                    Blocking::OperationAndRanks => {
                        self.team.wait(meeting.gate)?;
                        meeting.all_ranks()?;
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
        (0..stages).try_for_each(|stage| {
            self.team.nccl.grouped(has_several, || {
                for (member, aim) in self.team.members.iter().zip(&self.aims) {
                    if has_several {
                        member.device.bind()?;
                    }
                    member.start(aim, stage, shift)?;
                }
                Ok(())
            })
        })
    }
}

/// Points of time between iterations, on each GPU.
#[derive(Default)]
struct Marks(Vec<Vec<CudaEvent>>);

impl Marks {
    fn new(members: &[Member], iters: u32) -> anyhow::Result<Marks> {
        let of = |device: &Device| (0..=iters).map(|_| device.mark()).collect::<anyhow::Result<Vec<_>>>();
        Ok(Marks(members.iter().map(|member| of(&member.device)).collect::<anyhow::Result<_>>()?))
    }

    #[inline]
    fn set(&self, members: &[Member], nth: u32) -> anyhow::Result<()> {
        self.0.iter().zip(members).try_for_each(|(marks, member)| member.device.set(&marks[nth as usize]))
    }

    /// From each mark to the next one, on the GPU that took longest. All have passed.
    fn laps(&self) -> anyhow::Result<Vec<Micros>> {
        let Some(count) = self.0.first().map(|marks| marks.len() - 1) else { return Ok(Vec::new()) };
        let lap = |nth: usize| {
            let each = self.0.iter().map(|marks| Device::between(&marks[nth], &marks[nth + 1]));
            each.collect::<anyhow::Result<Vec<_>>>().map(|all| all.into_iter().fold(0.0, f64::max))
        };
        (0..count).map(|nth| lap(nth).map(Micros)).collect()
    }
}
