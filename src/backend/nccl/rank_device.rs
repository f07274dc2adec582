//! One rank: a GPU, its handle of the communicator, and its two buffers.

#![expect(
    unsafe_code,
    reason = "operations run on addresses of GPU memory, and buffers are registered by address"
)]

use std::{mem, ptr, sync::Arc};

use anyhow::Context;

use super::{
    buffers::Buffers,
    call::{Addresses, PreparedCall},
    comm::Comm,
    device::{Buffer, Device, DeviceStream},
    kernels::Kernels,
};
use crate::{
    backend::options::Registration,
    collective::{BufferMode, Case, data::Region, guard::CaseBuffer},
    native::nccl::Nccl,
    units::Bytes,
};

/// A GPU that has been started but has not joined the communicator yet.
pub(super) struct OpenedDevice {
    pub(super) device: Device,
    kernels: Kernels,
    counter: Buffer,
}

impl OpenedDevice {
    /// Starts GPU `gpu` with a stream of this kind.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub(super) fn open(gpu: usize, stream: DeviceStream) -> anyhow::Result<OpenedDevice> {
        let device = Device::open(gpu, stream)?;
        let counter = device.allocate(Bytes(mem::size_of::<u64>() as u64), None)?;
        let kernels = Kernels::new(device.context())?;
        Ok(OpenedDevice {
            device,
            kernels,
            counter,
        })
    }

    /// Returns the kernels, which can be compiled while NCCL connects the ranks.
    pub(super) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Becomes the rank of `comm`.
    pub(super) fn join(self, comm: Comm) -> RankDevice {
        let OpenedDevice {
            device,
            kernels,
            counter,
        } = self;
        RankDevice {
            device,
            kernels,
            counter,
            comm,
            buffers: None,
        }
    }
}

/// A rank on its GPU.
pub(super) struct RankDevice {
    pub(super) device: Device,
    kernels: Kernels,
    counter: Buffer,
    pub(super) comm: Comm,
    buffers: Option<Buffers>,
}

/// An operation of a rank, prepared once before it is started many times.
pub(super) struct PreparedOp {
    call: PreparedCall,
    send: u64,
    recv: u64,
}

impl PreparedOp {
    /// Returns the number of groups in the operation. Each is started on every rank of the thread
    /// before the next one.
    pub(super) fn stages(&self) -> u32 {
        self.call.stages()
    }

    /// Returns whether the operation also copies data itself, beside what NCCL does.
    pub(super) fn copies(&self) -> bool {
        self.call.copies()
    }
}

impl RankDevice {
    /// Returns its rank.
    pub(super) fn rank(&self) -> u64 {
        self.comm.rank().into()
    }

    /// Returns its buffers.
    ///
    /// # Errors
    /// Returns an error if they are not allocated yet.
    pub(super) fn buffers(&self) -> anyhow::Result<&Buffers> {
        self.buffers
            .as_ref()
            .context("the NCCL backend has no buffers yet")
    }

    /// Returns the largest message that a buffer holds.
    pub(super) fn largest(&self) -> anyhow::Result<Bytes> {
        Ok(self.buffers()?.largest)
    }

    /// Allocates the buffers.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn allocate(
        &mut self,
        nccl: &Arc<Nccl>,
        largest: Bytes,
        unalign: u64,
    ) -> anyhow::Result<()> {
        let buffers = Buffers::allocate(&self.device, nccl, largest, unalign)?;
        self.buffers = Some(buffers);
        Ok(())
    }

    /// Registers the buffers with NCCL. All ranks register windows together.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub(super) fn register(
        &mut self,
        nccl: &Nccl,
        registration: Registration,
    ) -> anyhow::Result<()> {
        self.device.bind()?;
        let comm = self.comm.raw();
        let buffers = self
            .buffers
            .as_mut()
            .context("the NCCL backend has no buffers yet")?;
        // NCCL writes them in place, so the vector must not grow afterwards.
        buffers.handles = vec![ptr::null_mut(); 2];
        let both = [&buffers.send, &buffers.recv];
        for (buffer, handle) in both.into_iter().zip(&mut buffers.handles) {
            let address = buffer.address();
            let bytes = buffer.bytes().0 as usize;
            // SAFETY: the buffer is memory of the communicator's GPU until `finish`, which returns
            // the handle first. The handle of a window is written when the group ends, to its place
            // in the vector; that of a registration at once.
            unsafe {
                match registration {
                    Registration::None => {}
                    Registration::Local => *handle = nccl.comm_register(comm, address, bytes)?,
                    Registration::Symmetric => {
                        nccl.comm_window_register(comm, address, bytes, handle)?
                    }
                }
            }
        }
        Ok(())
    }

    /// Undoes [`RankDevice::register`].
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub(super) fn deregister(
        &mut self,
        nccl: &Nccl,
        registration: Registration,
    ) -> anyhow::Result<()> {
        self.device.bind()?;
        let Some(buffers) = &mut self.buffers else {
            return Ok(());
        };
        let comm = self.comm.raw();
        for handle in mem::take(&mut buffers.handles) {
            // SAFETY: the handle is from `register`, and is returned once.
            unsafe {
                match registration {
                    Registration::None => {}
                    Registration::Local => nccl.comm_deregister(comm, handle)?,
                    Registration::Symmetric => nccl.comm_window_deregister(comm, handle)?,
                }
            }
        }
        Ok(())
    }

    /// Prepares `case`: which NCCL call, and the addresses of the first iteration.
    ///
    /// # Errors
    /// Returns an error if it does not fit into the buffers.
    pub(super) fn prepare(&self, case: &Case) -> anyhow::Result<PreparedOp> {
        let buffers = self.buffers()?;
        let layout = case.layout(self.rank());
        anyhow::ensure!(
            case.size() <= buffers.largest,
            "{case} does not fit into the buffers of {} bytes",
            buffers.largest
        );
        let element = case.dtype.size();
        let start = buffers.start(case);
        let send = buffers.send.address() + start;
        let recv = buffers.recv.address() + start;
        let send = match case.buffer_mode {
            BufferMode::OutOfPlace => send,
            BufferMode::InPlace => recv + layout.send_offset * element,
        };
        Ok(PreparedOp {
            call: self.comm.call_for(case)?,
            send,
            recv: recv + layout.recv_offset * element,
        })
    }

    /// Enqueues a stage of one operation in the stream, with its buffers moved by `shift` bytes.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    #[inline]
    pub(super) fn start(
        &self,
        operation: &PreparedOp,
        stage: u32,
        shift: u64,
    ) -> anyhow::Result<()> {
        let addresses = Addresses {
            send: operation.send + shift,
            recv: operation.recv + shift,
        };
        let stream = self.device.raw_stream();
        // SAFETY: the case fits into the buffers at every offset that `rotation` gives, and they
        // and the stream stay until the stream is empty: only `finish` frees them, which waits.
        unsafe { self.comm.enqueue(&operation.call, stage, addresses, stream) }
    }

    /// Enqueues `case` once on another communicator of the same ranks.
    ///
    /// # Errors
    /// Returns an error if it does not fit into the buffers, or if NCCL fails.
    pub(super) fn start_on(&self, comm: &Comm, case: &Case) -> anyhow::Result<()> {
        let PreparedOp { send, recv, .. } = self.prepare(case)?;
        let call = comm.call_for(case)?;
        let stream = self.device.raw_stream();
        // SAFETY: as in `start`, at the offset 0; the stream is of the communicator's GPU, which is
        // this rank's.
        unsafe { comm.enqueue(&call, 0, Addresses { send, recv }, stream) }
    }

    /// Waits until the stream is empty, and calls `meanwhile` again and again.
    ///
    /// # Errors
    /// Returns an error if the GPU, NCCL or a peer fails.
    pub(super) fn wait(&self, meanwhile: &dyn Fn()) -> anyhow::Result<()> {
        self.device.wait(|| {
            meanwhile();
            self.comm.check()
        })
    }

    /// Returns whether the stream is empty. If it is not, NCCL is asked for errors.
    ///
    /// # Errors
    /// Returns an error if the GPU, NCCL or a peer fails.
    pub(super) fn is_done(&self) -> anyhow::Result<bool> {
        let is_done = self.device.is_done()?;
        if !is_done {
            self.comm.check()?;
        }
        Ok(is_done)
    }

    /// Fills the buffers of `case`, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn fill(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let buffers = self.buffers()?;
        let layout = case.layout(self.rank());
        let key = case.data(seed);
        self.device.bind()?;
        for (buffer, regions) in [
            (CaseBuffer::Send, &layout.send),
            (CaseBuffer::Receive, &layout.recv),
        ] {
            for region in regions {
                let address = buffers.address_for(buffer, region, case)?;
                self.kernels
                    .fill(self.device.stream(), address, &key, region)?;
            }
        }
        Ok(())
    }

    /// Counts the wrong elements, in the stream's order, after [`RankDevice::fill`] with `seed`.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn check(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let layout = case.layout(self.rank());
        self.count(case, seed, CaseBuffer::Receive, &layout.expected)
    }

    /// Counts the elements of `regions` that differ from their contents, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn count(
        &self,
        case: &Case,
        seed: u64,
        buffer: CaseBuffer,
        regions: &[Region],
    ) -> anyhow::Result<()> {
        let buffers = self.buffers()?;
        let key = case.data(seed);
        let counter = self.counter.address();
        self.device.zero(&self.counter)?;
        for region in regions {
            let address = buffers.address_for(buffer, region, case)?;
            self.kernels
                .check(self.device.stream(), address, &key, region, counter)?;
        }
        Ok(())
    }

    /// Returns what [`RankDevice::count`] counted. The stream is empty.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn counted(&self) -> anyhow::Result<u64> {
        let mut wrong = [0; mem::size_of::<u64>()];
        self.device.read(&self.counter, 0, &mut wrong)?;
        Ok(u64::from_le_bytes(wrong))
    }

    /// Leaves the communicator. Nothing runs anymore.
    ///
    /// # Errors
    /// Returns an error if NCCL or the GPU fails.
    pub(super) fn close(self) -> anyhow::Result<ClosedDevice> {
        self.device.bind()?;
        self.comm.close()?;
        let mut buffers = Vec::new();
        if let Some(pair) = self.buffers {
            buffers.extend([pair.send, pair.recv]);
        }
        buffers.push(self.counter);
        Ok(ClosedDevice {
            device: self.device,
            buffers,
        })
    }
}

/// A GPU that has left its communicator.
pub(super) struct ClosedDevice {
    device: Device,
    buffers: Vec<Buffer>,
}

impl ClosedDevice {
    /// Frees its memory.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn free(self) -> anyhow::Result<()> {
        for buffer in self.buffers {
            self.device.free(buffer)?;
        }
        Ok(())
    }
}
