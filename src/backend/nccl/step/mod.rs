//! Training steps on a GPU: computation and collectives in streams of their own, which wait for
//! each other by events.
//!
//! Each communicator is a [`RankDevice`] with its stream and buffers, and each stream of the step
//! that computes or copies has a stream of the GPU. The host puts all steps into the streams
//! without a wait, and then polls them.

mod calibration;
mod copy_buffers;
mod cost;
mod events;
mod open;

use std::{cell::Cell, mem, sync::Arc};

use anyhow::Context;

use self::{
    cost::KernelTrain,
    events::{OperationEvents, StepEvents},
    open::OpenedSteps,
};
use super::{
    device::Device,
    polling::Polling,
    rank_device::{PreparedOp, RankDevice},
};
use crate::{
    backend::step::{StepBackend, StepMode, StepSetup, StepTimes, waits},
    collective::Case,
    native::nccl::Nccl,
    workload::{MemoryCopies, Step, StepWork},
    world::{World, progress},
};

/// Opens the backend of training steps on GPU `gpu`. Every process calls it.
///
/// # Errors
/// Returns an error if NCCL cannot run one of the collectives, if the GPU does not start, or if
/// NCCL fails.
pub(super) fn open(
    nccl: &Arc<Nccl>,
    setup: &StepSetup<'_>,
    gpu: usize,
    world: &dyn World,
) -> anyhow::Result<Box<dyn StepBackend>> {
    Ok(Box::new(NcclSteps {
        step: setup.step.clone(),
        opened: Some(open::opened(nccl, setup, gpu, world)?),
    }))
}

/// Training steps of NCCL on the GPU of this process.
struct NcclSteps {
    step: Step,
    /// What they run on; `None` once the backend has finished.
    opened: Option<OpenedSteps>,
}

impl Drop for NcclSteps {
    /// Leaves what [`StepBackend::finish`] did not end to the end of the process, as `NcclBackend`
    /// does.
    fn drop(&mut self) {
        mem::forget(self.opened.take());
    }
}

impl NcclSteps {
    fn opened(&self) -> anyhow::Result<&OpenedSteps> {
        self.opened
            .as_ref()
            .context("the NCCL backend is used after its end")
    }
}

impl StepBackend for NcclSteps {
    fn verify(&mut self, communicator: usize, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let opened = self.opened()?;
        let rank = &opened.communicators[communicator];
        verified(rank, case, seed).with_context(|| format!("while running {case} to check it"))
    }

    fn run(
        &mut self,
        mode: StepMode,
        times: u32,
        barrier: &dyn Fn(),
    ) -> anyhow::Result<Vec<StepTimes>> {
        let run = StepRun::new(&self.step, self.opened()?, mode, times)?;
        barrier();
        run.run().context("while running training steps")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        match self.opened.take() {
            None => Ok(()),
            Some(opened) => opened.close(),
        }
    }
}

/// Runs `case` once on `rank`, and returns how many elements are wrong.
fn verified(rank: &RankDevice, case: &Case, seed: u64) -> anyhow::Result<u64> {
    let operation = rank.prepare(case)?;
    rank.fill(case, seed)?;
    rank.wait(&|| {})?;
    progress::begin(1);
    for stage in 0..operation.stages() {
        rank.start(&operation, stage, 0)?;
    }
    rank.wait(&|| {})?;
    progress::done(1);
    rank.check(case, seed)?;
    rank.wait(&|| {})?;
    rank.counted()
}

/// What an operation puts into its stream.
enum Enqueued<'a> {
    Kernels(KernelTrain),
    Copies(MemoryCopies),
    Collective(&'a RankDevice, PreparedOp),
}

/// Steps while they run.
struct StepRun<'a> {
    opened: &'a OpenedSteps,
    operations: Vec<RunningOperation<'a>>,
    /// The last operation of each stream that has any.
    last: Vec<usize>,
    steps: Vec<StepEvents>,
    /// The operations that are in their streams, of all steps.
    issued: Cell<usize>,
    /// The operations that have ended, of all steps.
    passed: Cell<usize>,
}

/// An operation that runs in the mode of a [`StepRun`].
struct RunningOperation<'a> {
    number: usize,
    device: &'a Device,
    /// The operations of other streams whose ends it waits for.
    waits: Vec<usize>,
    work: Enqueued<'a>,
}

impl<'a> StepRun<'a> {
    /// Prepares `times` steps in `mode`.
    ///
    /// # Errors
    /// Returns an error if a collective does not fit into its buffers, or the driver fails.
    fn new(
        step: &Step,
        opened: &'a OpenedSteps,
        mode: StepMode,
        times: u32,
    ) -> anyhow::Result<StepRun<'a>> {
        let device_of = |number: usize| opened.device(&step.operations[number]);
        let mut operations = Vec::new();
        for (number, waited) in waits(step, mode).into_iter().enumerate() {
            let Some(waited) = waited else {
                continue;
            };
            let device = device_of(number)?;
            let mut others = Vec::new();
            for earlier in waited {
                // What is in the same stream has its order already.
                if !std::ptr::eq(device_of(earlier)?, device) {
                    others.push(earlier);
                }
            }
            let work = match &step.operations[number].work {
                StepWork::Compute(time) => Enqueued::Kernels(opened.train(*time)),
                StepWork::Copies(copies) => Enqueued::Copies(*copies),
                StepWork::Collective { communicator, case } => {
                    let rank = &opened.communicators[*communicator];
                    Enqueued::Collective(rank, rank.prepare(case)?)
                }
            };
            operations.push(RunningOperation {
                number,
                device,
                waits: others,
                work,
            });
        }
        let mut last = Vec::new();
        for device in opened.devices() {
            let mut backwards = operations.iter().rev();
            let found = backwards.find(|one| std::ptr::eq(one.device, device));
            last.extend(found.map(|one| one.number));
        }
        let mut steps = Vec::with_capacity(times as usize);
        for _ in 0..times {
            let numbers = operations.iter().map(|operation| operation.number);
            steps.push(StepEvents::new(
                &opened.joint,
                step.operations.len(),
                numbers,
            )?);
        }
        Ok(StepRun {
            opened,
            operations,
            last,
            steps,
            issued: Cell::new(0),
            passed: Cell::new(0),
        })
    }

    /// Puts all steps into the streams, waits for their end, and returns their times.
    ///
    /// # Errors
    /// Returns an error if the GPU, NCCL or a peer fails.
    fn run(self) -> anyhow::Result<Vec<StepTimes>> {
        if let Err(error) = self.run_to_the_end() {
            // Destroying an event that has not passed can wait for the GPU.
            mem::forget(self);
            return Err(error);
        }
        self.steps.iter().map(StepEvents::times).collect()
    }

    fn run_to_the_end(&self) -> anyhow::Result<()> {
        progress::begin((self.operations.len() * self.steps.len()) as u64);
        for events in &self.steps {
            self.enqueue(events)?;
        }
        let polling = Polling::start();
        while !self.opened.is_done()? {
            self.look();
            polling.pause();
        }
        self.look();
        Ok(())
    }

    /// Puts one step into the streams, which begins when the one before it has ended.
    fn enqueue(&self, events: &StepEvents) -> anyhow::Result<()> {
        let joint = &self.opened.joint;
        joint.bind()?;
        joint.record(&events.begin)?;
        for device in self.opened.devices() {
            device.wait_for(&events.begin)?;
        }
        for operation in &self.operations {
            let own = events.of(operation.number)?;
            let device = operation.device;
            for &earlier in &operation.waits {
                device.wait_for(&events.of(earlier)?.end)?;
            }
            device.record(&own.begin)?;
            self.enqueue_work(device, &operation.work)?;
            device.record(&own.end)?;
            self.issued.set(self.issued.get() + 1);
            progress::issued(self.issued.get() as u64);
            self.look();
        }
        for &last in &self.last {
            joint.wait_for(&events.of(last)?.end)?;
        }
        joint.record(&events.end)
    }

    fn enqueue_work(&self, device: &Device, work: &Enqueued<'_>) -> anyhow::Result<()> {
        match work {
            Enqueued::Kernels(train) => {
                for _ in 0..train.kernels {
                    let (waves, iterations) = (train.waves, train.iterations);
                    let kernel = &self.opened.kernel;
                    kernel.launch(device.stream(), waves, iterations)?;
                }
            }
            Enqueued::Copies(copies) => self.opened.copy(device, copies)?,
            Enqueued::Collective(rank, operation) => {
                for stage in 0..operation.stages() {
                    rank.start(operation, stage, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Notes the operations that have ended, in their order.
    fn look(&self) {
        let count = self.operations.len();
        let mut passed = self.passed.get();
        while passed < self.issued.get() {
            let number = self.operations[passed % count].number;
            let events = self.steps[passed / count].of(number);
            if !events.is_ok_and(OperationEvents::has_ended) {
                break;
            }
            passed += 1;
            progress::done(passed as u64);
        }
        self.passed.set(passed);
    }
}
