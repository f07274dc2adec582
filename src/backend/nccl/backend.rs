//! The backend that the sweep drives.

use std::{mem, sync::Arc, time::Duration};

use anyhow::Context;

use super::{
    float8::Float8Support,
    memory::largest_buffer,
    process_ranks::ProcessRanks,
    thread_ranks::{ThreadBarrier, ThreadRanks, ThreadTiming},
};
use crate::{
    backend::{
        Backend, Timing, Waived, check_possible,
        options::{ExecOptions, NcclSetup, Registration},
    },
    collective::{Case, Collective, FaultTarget, guard::Damage},
    native::nccl::{Nccl, UniqueId},
    record::MemoryUse,
    units::{Bytes, Micros},
    world::progress,
};

/// NCCL on this process's GPUs.
pub(super) struct NcclBackend {
    /// Ranks of the communicator.
    ranks: u32,
    /// Processes of this machine that use the same GPU.
    gpu_sharers: u32,
    exec_options: ExecOptions,
    float8: Float8Support,
    /// The ranks of this process; `None` once the backend has finished.
    process: Option<ProcessRanks>,
}

impl NcclBackend {
    /// Joins the communicator of `id`. Waits for all ranks. The kernels that `cases` need are
    /// compiled in the meantime; other cases can run too, but the first with another encoding takes
    /// longer to fill.
    ///
    /// # Errors
    /// Returns an error if a GPU does not start or if NCCL fails.
    pub(super) fn open(
        nccl: Arc<Nccl>,
        id: UniqueId,
        setup: &NcclSetup,
        cases: &[&Case],
    ) -> anyhow::Result<NcclBackend> {
        progress::set_gpus(named(&setup.local_ranks.gpus));
        let process = ProcessRanks::open(nccl, id, setup, cases)?;
        let float8 = Float8Support {
            nccl: process.nccl_version(),
            is_reduced: setup.reduces_float8,
        };
        Ok(NcclBackend {
            ranks: setup.local_ranks.ranks,
            gpu_sharers: setup.gpu_sharers.max(1),
            exec_options: setup.exec_options,
            float8,
            process: Some(process),
        })
    }

    fn process(&self) -> anyhow::Result<&ProcessRanks> {
        self.process
            .as_ref()
            .context("the NCCL backend is used after its end")
    }

    fn process_mut(&mut self) -> anyhow::Result<&mut ProcessRanks> {
        self.process
            .as_mut()
            .context("the NCCL backend is used after its end")
    }

    /// Calls `step` on each thread with its ranks; the threads do not meet the other processes.
    fn on_each_thread<R: Send>(
        &mut self,
        doing: &(dyn Fn() -> String + Sync),
        step: impl Fn(&ThreadRanks, &ThreadBarrier) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        self.process_mut()?.on_each_thread(doing, &|| {}, step)
    }
}

impl Drop for NcclBackend {
    /// Leaves what [`Backend::finish`] did not end to the end of the process: unloading kernels and
    /// freeing memory wait for the GPU, which may be waiting for a rank that is gone.
    fn drop(&mut self) {
        mem::forget(self.process.take());
    }
}

impl Backend for NcclBackend {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        check_possible(case)?;
        // Every NCCL that is accepted has all other types and operations, and collectives that came
        // later are made of sends and receives.
        self.float8.check(case)?;
        if case.collective == Collective::HyperCube && self.exec_options.operations() > 1 {
            let what = "-m makes one group of several operations, and each round of a hypercube \
                        is a group of its own";
            return Err(Waived(what.into()));
        }
        match case.root {
            Some(root) if root >= self.ranks => Err(Waived(format!(
                "rank {root} does not exist among {} ranks",
                self.ranks
            ))),
            _ => Ok(()),
        }
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        let mut smallest: Option<Bytes> = None;
        for rank in self.process()?.ranks() {
            let memory = rank.device.memory()?;
            let buffer = largest_buffer(memory.free, memory.total, self.gpu_sharers);
            smallest = Some(smallest.map_or(buffer, |other| other.min(buffer)));
        }
        Ok(smallest)
    }

    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()> {
        let exec_options = self.exec_options;
        self.process_mut()?.allocate(largest, &exec_options)
    }

    fn register(&mut self) -> anyhow::Result<()> {
        match self.exec_options.registration {
            Registration::None => Ok(()),
            registration => self
                .process_mut()?
                .register(registration)
                .context("while registering the buffers with NCCL"),
        }
    }

    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let doing = || format!("while filling the buffers of {case}");
        self.on_each_thread(&doing, |ranks, _| ranks.fill(case, seed))?;
        Ok(())
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        let doing = || format!("while running {case}");
        let timings =
            self.on_each_thread(&doing, |ranks, barrier| ranks.run(case, times, barrier))?;
        Ok(combine(timings, times.into()))
    }

    fn once(&mut self, case: &Case) -> anyhow::Result<()> {
        let exec_options = self.exec_options;
        let doing = || format!("while running {case} to check it");
        self.on_each_thread(&doing, |ranks, barrier| {
            ranks.once(case, &exec_options, barrier)
        })?;
        Ok(())
    }

    fn time(&mut self, case: &Case, iters: u32, barrier: &dyn Fn()) -> anyhow::Result<Timing> {
        let exec_options = self.exec_options;
        let doing = || format!("while timing {case}");
        let timings = self
            .process_mut()?
            .on_each_thread(&doing, barrier, |ranks, barrier| {
                ranks.time(case, iters, &exec_options, barrier)
            })?;
        let operations = u64::from(iters)
            * u64::from(exec_options.operations())
            * u64::from(exec_options.rounds());
        Ok(combine(timings, operations))
    }

    fn predicts(&self) -> Result<(), Waived> {
        let process = self.process.as_ref();
        let why = match process {
            Some(process) if process.has_predictions() => return Ok(()),
            Some(process) => format!(
                "NCCL 2.22 or newer predicts times, and this is {}",
                process.nccl_version()
            ),
            None => "the NCCL backend is used after its end".into(),
        };
        Err(Waived(why))
    }

    fn prediction_id(&self) -> anyhow::Result<Vec<u8>> {
        self.process()?.prediction_id()
    }

    fn predict(&mut self, case: &Case, id: &[u8]) -> anyhow::Result<Option<Micros>> {
        let ranks = self.ranks;
        let id: UniqueId = id
            .try_into()
            .context("the unique id has the wrong length")?;
        self.process()?
            .predict(case, &id, ranks)
            .with_context(|| format!("while NCCL predicts the time of {case}"))
    }

    fn memory_use(&self) -> anyhow::Result<Option<MemoryUse>> {
        let process = self.process()?;
        let now = process.free_memory()?;
        Ok(Some(process.free.used(&now)))
    }

    fn used_memory(&self) -> anyhow::Result<Option<u64>> {
        let mut used = 0;
        for rank in self.process()?.ranks() {
            let memory = rank.device.memory()?;
            used += memory.total.0 - memory.free.0.min(memory.total.0);
        }
        Ok(Some(used))
    }

    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let doing = || format!("while checking {case}");
        let wrong = self.on_each_thread(&doing, |ranks, _| ranks.count_wrong(case, seed))?;
        Ok(wrong.into_iter().sum())
    }

    fn guard(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let doing = || format!("while filling the guard zones of {case}");
        self.on_each_thread(&doing, |ranks, _| ranks.fill_zones(case, seed))?;
        Ok(())
    }

    fn damage(&mut self, case: &Case, seed: u64) -> anyhow::Result<Vec<Damage>> {
        let doing = || format!("while checking the guard zones of {case}");
        let found = self.on_each_thread(&doing, |ranks, _| ranks.damage(case, seed))?;
        Ok(found.concat())
    }

    fn corrupt(&mut self, case: &Case, target: FaultTarget) -> anyhow::Result<bool> {
        for rank in self.process()?.ranks() {
            let has_corrupted = rank
                .corrupt(case, target)
                .with_context(|| format!("while planting an error in {case}"))?;
            if has_corrupted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            None => Ok(()),
            Some(process) => process
                .finish(&self.exec_options)
                .context("while ending the communicator"),
        }
    }
}

/// Returns how messages name `gpus`: `GPU 2`, `GPUs 0, 1`.
pub(super) fn named(gpus: &[usize]) -> String {
    let numbers: Vec<String> = gpus.iter().map(usize::to_string).collect();
    let noun = if gpus.len() == 1 { "GPU" } else { "GPUs" };
    format!("{noun} {}", numbers.join(", "))
}

/// Combines what the threads measured.
fn combine(threads: Vec<ThreadTiming>, operations: u64) -> Timing {
    let issued = threads.first().map_or(Duration::ZERO, |first| first.issued);
    let mut timing = Timing {
        issued,
        operations,
        ..Timing::default()
    };
    for thread in threads {
        timing.elapsed.push(thread.elapsed);
        keep_longest(&mut timing.iteration_times, &thread.iteration_times);
    }
    timing
}

/// Raises each time in `longest` to that of the same iteration in `times`.
fn keep_longest(longest: &mut Vec<Micros>, times: &[Micros]) {
    if longest.len() < times.len() {
        longest.resize(times.len(), Micros::default());
    }
    for (longest, time) in longest.iter_mut().zip(times) {
        longest.0 = longest.0.max(time.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{
            BufferMode, CaseShape,
            data::{DType, RedOp},
        },
        native::nccl::NcclVersion,
    };

    #[test]
    fn a_finished_backend_says_so() {
        let mut backend = NcclBackend {
            ranks: 2,
            gpu_sharers: 1,
            exec_options: ExecOptions::default(),
            float8: Float8Support {
                nccl: NcclVersion(22803),
                is_reduced: false,
            },
            process: None,
        };
        let case = CaseShape {
            collective: Collective::Reduce,
            dtype: DType::Float,
            redop: Some(RedOp::Sum),
            root: Some(2),
            buffer_mode: BufferMode::InPlace,
            ranks: 2,
        }
        .nearest(Bytes(64));
        assert_eq!(
            backend.supports(&case),
            Err(Waived("rank 2 does not exist among 2 ranks".into()))
        );
        assert!(
            backend.run(&case, 1).is_err()
                && backend.allocate(Bytes(8)).is_err()
                && backend.finish().is_ok()
        );
    }
}
