//! [`OpenedSteps`]: the streams, communicators and buffers that steps run on.

use std::sync::Arc;

use anyhow::Context;

use super::{
    super::{
        backend::named,
        comm::Comm,
        compute::ComputeKernel,
        device::{Device, DeviceStream},
        float8::Float8Support,
        polling::Polling,
        rank_device::{ClosedDevice, OpenedDevice, RankDevice},
    },
    calibration::calibrated,
    copy_buffers::CopyBuffers,
    cost::{KernelCost, KernelTrain},
};
use crate::{
    backend::{
        Waived, check_possible,
        step::{ComputeOptions, StepSetup},
    },
    collective::Case,
    exit::{Code, Failure},
    native::{
        cuda,
        nccl::{CommConfig, Nccl, UniqueId},
    },
    units::{Bytes, Micros},
    workload::{MemoryCopies, Step, StepOperation, StepWork},
    world::{self, World, progress},
};

/// The compute capability from which on NCCL reduces 8-bit floats.
const REDUCES_FLOAT8: (u32, u32) = (9, 0);

/// What steps run on.
pub(super) struct OpenedSteps {
    /// The stream in which a step begins and ends.
    pub(super) joint: Device,
    pub(super) communicators: Vec<RankDevice>,
    /// The stream of each stream of the step that computes or copies.
    working: Vec<Option<Device>>,
    /// What copies read and write, if the step has any.
    copies: Option<CopyBuffers>,
    pub(super) kernel: ComputeKernel,
    cost: KernelCost,
    options: ComputeOptions,
}

/// Makes the communicators, buffers and streams of a step on GPU `gpu`. Every process calls it.
///
/// # Errors
/// Returns an error if NCCL cannot run one of the collectives, if the GPU does not start, or if
/// NCCL fails.
pub(super) fn opened(
    nccl: &Arc<Nccl>,
    setup: &StepSetup<'_>,
    gpu: usize,
    world: &dyn World,
) -> anyhow::Result<OpenedSteps> {
    let float8 = Float8Support {
        nccl: nccl.version(),
        is_reduced: reduces_float8(gpu, world)?,
    };
    for operation in &setup.step.operations {
        if let StepWork::Collective { case, .. } = &operation.work {
            check(case, float8).map_err(|Waived(why)| {
                let what = format!(
                    "the operation {} ({case}) cannot run with NCCL: {why}",
                    operation.name
                );
                Failure::on_all_ranks(Code::Usage, what)
            })?;
        }
    }
    progress::set_gpus(named(&[gpu]));
    let ids = unique_ids(nccl, setup, world)?;
    OpenedSteps::new(nccl, setup, gpu, &ids)
        .with_context(|| format!("while preparing training steps on GPU {gpu}"))
}

/// Returns whether the GPUs of all ranks reduce 8-bit floats.
fn reduces_float8(gpu: usize, world: &dyn World) -> anyhow::Result<bool> {
    let own = cuda::gpus().and_then(|gpus| {
        let found = gpus.get(gpu).map(|gpu| gpu.capability >= REDUCES_FLOAT8);
        found.ok_or_else(|| {
            let what = format!("GPU {gpu} does not exist: this process sees {}", gpus.len());
            Failure::on_this_rank(Code::Cuda, what)
        })
    });
    let cannot = world::agree(world, own).map(|reduces| u64::from(!reduces))?;
    Ok(world.all_reduce_sum(cannot) == 0)
}

/// Checks whether NCCL runs `case`.
fn check(case: &Case, float8: Float8Support) -> Result<(), Waived> {
    check_possible(case)?;
    float8.check(case)
}

/// Returns the unique id of this rank's communicator for each communicator of the step. The first
/// rank of each makes it.
fn unique_ids(
    nccl: &Nccl,
    setup: &StepSetup<'_>,
    world: &dyn World,
) -> anyhow::Result<Vec<UniqueId>> {
    let own_rank = setup.rank as usize;
    let groups = setup.step.communicators.iter().map(|one| &one.group);
    let mut made = Vec::new();
    for group in groups.clone() {
        made.push(match group.ranks[own_rank] {
            0 => nccl.unique_id().map(|id| id.to_vec()),
            _ => Ok(Vec::new()),
        });
    }
    let made: Vec<Vec<u8>> = world::agree(world, made.into_iter().collect())?;
    let of_all = world::all_gather(world, &made)?;
    let mut ids = Vec::new();
    for (index, group) in groups.enumerate() {
        let color = group.colors[own_rank];
        let mut members = group.colors.iter().zip(&group.ranks);
        let first = members.position(|(one, rank)| *one == color && *rank == 0);
        let id = first.and_then(|first| of_all[first].get(index)?.as_slice().try_into().ok());
        ids.push(id.context("a communicator has no first rank")?);
    }
    Ok(ids)
}

/// Joins the communicators of `ids`, in their order, with the buffers that each needs.
fn join(
    nccl: &Arc<Nccl>,
    setup: &StepSetup<'_>,
    gpu: usize,
    ids: &[UniqueId],
) -> anyhow::Result<Vec<RankDevice>> {
    let mut joined = Vec::with_capacity(ids.len());
    for (index, (communicator, id)) in setup.step.communicators.iter().zip(ids).enumerate() {
        let group = &communicator.group;
        let rank = group.ranks[setup.rank as usize];
        let opened = OpenedDevice::open(gpu, DeviceStream::HighPriority)?;
        let (ranks, config) = (group.size as u32, CommConfig::default());
        let select_gpu = |_| opened.device.bind();
        let comms = Comm::init(nccl, id, &[rank], ranks, config, &select_gpu);
        let mut comms = comms.with_context(|| {
            let name = &communicator.name;
            format!("while rank {rank} of {ranks} joined the communicator {name}")
        })?;
        let comm = comms.pop().context("NCCL joined no rank")?;
        let mut rank = opened.join(comm);
        rank.allocate(nccl, setup.step.largest(index), 0)?;
        joined.push(rank);
    }
    Ok(joined)
}

impl OpenedSteps {
    fn new(
        nccl: &Arc<Nccl>,
        setup: &StepSetup<'_>,
        gpu: usize,
        ids: &[UniqueId],
    ) -> anyhow::Result<OpenedSteps> {
        let StepSetup { step, compute, .. } = setup;
        let joint = Device::open(gpu, DeviceStream::NonBlocking)?;
        let kernel = ComputeKernel::load(joint.context(), compute.multiprocessors)?;
        let is_whole = compute.multiprocessors >= 1.0;
        let cost = calibrated(&joint, &kernel, compute.kernel, is_whole)?;
        let copies = match step.largest_copies() {
            Bytes(0) => None,
            largest => Some(CopyBuffers::allocate(&joint, largest)?),
        };
        let communicators = join(nccl, setup, gpu, ids)?;
        Comm::let_watch_ask(communicators.iter().map(|rank| &rank.comm));
        let mut working = Vec::with_capacity(step.streams.len());
        for stream in 0..step.streams.len() {
            let kind = kind_of_stream(step, stream);
            working.push(kind.map(|kind| Device::open(gpu, kind)).transpose()?);
        }
        Ok(OpenedSteps {
            joint,
            communicators,
            working,
            copies,
            kernel,
            cost,
            options: *compute,
        })
    }

    /// Returns the stream of `operation`.
    ///
    /// # Errors
    /// Returns an error if it has none, which would be a bug.
    pub(super) fn device(&self, operation: &StepOperation) -> anyhow::Result<&Device> {
        match &operation.work {
            StepWork::Collective { communicator, .. } => {
                Ok(&self.communicators[*communicator].device)
            }
            StepWork::Compute(_) | StepWork::Copies(_) => self.working[operation.stream]
                .as_ref()
                .context("a stream that computes or copies has no stream of the GPU"),
        }
    }

    /// Returns all streams in which operations run.
    pub(super) fn devices(&self) -> impl Iterator<Item = &Device> {
        let communicating = self.communicators.iter().map(|rank| &rank.device);
        communicating.chain(self.working.iter().flatten())
    }

    /// Returns the kernels that compute for `time`.
    pub(super) fn train(&self, time: Micros) -> KernelTrain {
        self.cost.train(time, self.options.kernel)
    }

    /// Puts copies into the stream of `device`.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn copy(&self, device: &Device, copies: &MemoryCopies) -> anyhow::Result<()> {
        let buffers = self.copies.as_ref();
        let buffers = buffers.context("a step that copies has no buffers for it")?;
        buffers.copy(device, copies)
    }

    /// Returns whether all streams are empty. If one is not, NCCL is asked for errors.
    ///
    /// # Errors
    /// Returns an error if the GPU, NCCL or a peer fails.
    pub(super) fn is_done(&self) -> anyhow::Result<bool> {
        let mut is_done = self.joint.is_done()?;
        for rank in &self.communicators {
            is_done &= rank.is_done()?;
        }
        for device in self.working.iter().flatten() {
            is_done &= device.is_done()?;
        }
        Ok(is_done)
    }

    /// Leaves the communicators and frees the memory.
    ///
    /// # Errors
    /// Returns an error if the GPU or NCCL fails.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let polling = Polling::start();
        while !self.is_done()? {
            polling.pause();
        }
        // All communicators first: freeing memory waits for the GPU.
        let closed = self.communicators.into_iter().map(RankDevice::close);
        let closed = closed.collect::<anyhow::Result<Vec<ClosedDevice>>>()?;
        closed.into_iter().try_for_each(ClosedDevice::free)?;
        match self.copies {
            None => Ok(()),
            Some(buffers) => buffers.free(&self.joint),
        }
    }
}

/// Returns the kind of GPU stream for what `stream` computes or copies; `None` if it does neither.
/// A stream that only copies has a high priority, as collectives have.
fn kind_of_stream(step: &Step, stream: usize) -> Option<DeviceStream> {
    let mut kind = None;
    for operation in &step.operations {
        if operation.stream != stream {
            continue;
        }
        match operation.work {
            StepWork::Compute(_) => return Some(DeviceStream::NonBlocking),
            StepWork::Copies(_) => kind = Some(DeviceStream::HighPriority),
            StepWork::Collective { .. } => {}
        }
    }
    kind
}
