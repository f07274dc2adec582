//! One rank: a GPU, its end of the communicator, and its two buffers.

#![expect(
    unsafe_code,
    reason = "operations run on addresses of GPU memory, and buffers are registered by address"
)]

use std::{mem, ptr, sync::Arc};

use anyhow::Context;

use super::{
    comm::{Call, Comm},
    device::{Buffer, Device},
    kernels::Kernels,
};
use crate::{
    backend::options::Registration,
    collective::{
        BufferMode, Case,
        data::{Region, fault_in},
    },
    native::nccl::{Nccl, RawHandle},
    units::Bytes,
};

/// A GPU that is started, before it joins the communicator.
pub(super) struct OpenedDevice {
    pub(super) device: Device,
    kernels: Kernels,
    counter: Buffer,
}

impl OpenedDevice {
    /// Starts GPU `gpu`.
    ///
    /// # Errors
    /// Where it does not start.
    pub(super) fn open(gpu: usize, null_stream: bool) -> anyhow::Result<OpenedDevice> {
        let device = Device::open(gpu, null_stream)?;
        let counter = device.allocate(Bytes(mem::size_of::<u64>() as u64), None)?;
        let kernels = Kernels::new(device.context())?;
        Ok(OpenedDevice {
            device,
            kernels,
            counter,
        })
    }

    /// The kernels, to be compiled while NCCL connects the ranks.
    pub(super) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Takes its place in the communicator.
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

/// A rank.
pub(super) struct RankDevice {
    pub(super) device: Device,
    kernels: Kernels,
    counter: Buffer,
    pub(super) comm: Comm,
    buffers: Option<Buffers>,
}

struct Buffers {
    send: Buffer,
    recv: Buffer,
    /// What they hold at most; they are longer where they are used unaligned.
    largest: Bytes,
    /// How many elements they are moved by.
    unalign: u64,
    /// What NCCL gave for them, if it was told of them.
    handles: Vec<RawHandle>,
}

/// Bytes of the largest element type.
const LARGEST_ELEMENT: u64 = 8;

/// One operation of a rank, worked out once before many of them.
pub(super) struct PreparedOp {
    call: Call,
    send: u64,
    recv: u64,
}

impl PreparedOp {
    /// The groups that the operation is made of: each begins on every rank of the thread before the next one does.
    pub(super) fn stages(&self) -> u32 {
        self.call.stages()
    }

    /// Does it copy by itself, beside what NCCL does?
    pub(super) fn copies(&self) -> bool {
        self.call.copies()
    }
}

impl RankDevice {
    fn buffers(&self) -> anyhow::Result<&Buffers> {
        self.buffers
            .as_ref()
            .context("the NCCL backend has no buffers yet")
    }

    /// What a buffer holds at most.
    pub(super) fn largest(&self) -> anyhow::Result<Bytes> {
        Ok(self.buffers()?.largest)
    }

    /// Allocates the buffers.
    ///
    /// # Errors
    /// Where there is not enough memory.
    pub(super) fn allocate(
        &mut self,
        nccl: &Arc<Nccl>,
        largest: Bytes,
        unalign: u64,
    ) -> anyhow::Result<()> {
        let bytes = Bytes(largest.0 + unalign * LARGEST_ELEMENT);
        let buffer = || self.device.allocate(bytes, Some(Arc::clone(nccl)));
        self.buffers = Some(Buffers {
            send: buffer()?,
            recv: buffer()?,
            largest,
            unalign,
            handles: Vec::new(),
        });
        Ok(())
    }

    /// Tells NCCL of the buffers. Windows are a matter of all ranks.
    ///
    /// # Errors
    /// Where NCCL fails.
    pub(super) fn register(&mut self, nccl: &Nccl, how: Registration) -> anyhow::Result<()> {
        self.device.bind()?;
        let comm = self.comm.raw();
        let buffers = self
            .buffers
            .as_mut()
            .context("the NCCL backend has no buffers yet")?;
        // They are written where they lie: the vector does not grow any more.
        buffers.handles = vec![ptr::null_mut(); 2];
        for (buffer, handle) in [&buffers.send, &buffers.recv]
            .into_iter()
            .zip(&mut buffers.handles)
        {
            let (address, bytes) = (buffer.address(), buffer.bytes().0 as usize);
            // SAFETY: the buffer is memory of the communicator's GPU until `finish`, which gives the handle back first. The handle
            // of a window is written when the group ends, to its place in the vector; that of a registration at once.
            unsafe {
                match how {
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

    /// Takes back what [`RankDevice::register`] said.
    ///
    /// # Errors
    /// Where NCCL fails.
    pub(super) fn deregister(&mut self, nccl: &Nccl, how: Registration) -> anyhow::Result<()> {
        self.device.bind()?;
        let comm = self.comm.raw();
        for handle in self
            .buffers
            .as_mut()
            .map(|buffers| mem::take(&mut buffers.handles))
            .unwrap_or_default()
        {
            // SAFETY: the handle is from `register`, and is given back once.
            unsafe {
                match how {
                    Registration::None => {}
                    Registration::Local => nccl.comm_deregister(comm, handle)?,
                    Registration::Symmetric => nccl.comm_window_deregister(comm, handle)?,
                }
            }
        }
        Ok(())
    }

    /// Where `case` sends from and receives to in the first iteration, and with which call.
    ///
    /// # Errors
    /// Where it does not fit into the buffers.
    pub(super) fn aim(&self, case: &Case) -> anyhow::Result<PreparedOp> {
        let (buffers, layout) = (self.buffers()?, case.layout(self.comm.rank().into()));
        let (size, fits) = (case.size(), buffers.largest);
        anyhow::ensure!(
            size <= fits,
            "{case} does not fit into the buffers of {fits} bytes"
        );
        let element = case.dtype.size();
        let [send, recv] = [&buffers.send, &buffers.recv]
            .map(|buffer| buffer.address() + buffers.unalign * element);
        let send = match case.buffer_mode {
            BufferMode::OutOfPlace => send,
            BufferMode::InPlace => recv + layout.send_offset * element,
        };
        Ok(PreparedOp {
            call: self.comm.call(case)?,
            send,
            recv: recv + layout.recv_offset * element,
        })
    }

    /// Puts a stage of one operation into the stream, its buffers moved by `shift` bytes.
    ///
    /// # Errors
    /// Where NCCL fails.
    #[inline]
    pub(super) fn start(&self, aim: &PreparedOp, stage: u32, shift: u64) -> anyhow::Result<()> {
        let (send, recv) = (aim.send + shift, aim.recv + shift);
        // SAFETY: the case fits into the buffers at every offset that `rotation` gives, and they and the stream stay until
        // the stream is empty: only `finish` frees them, which waits.
        unsafe {
            self.comm
                .enqueue(&aim.call, stage, send, recv, self.device.raw_stream())
        }
    }

    /// Waits until the stream is empty.
    ///
    /// # Errors
    /// Where the GPU, NCCL or a peer fails.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        self.device.wait(|| self.comm.check())
    }

    /// Is the stream empty? Asks NCCL too where it is not.
    ///
    /// # Errors
    /// Where the GPU, NCCL or a peer fails.
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
    /// Where the GPU fails.
    pub(super) fn fill(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let (buffers, layout, key) = (
            self.buffers()?,
            case.layout(self.comm.rank().into()),
            case.data(seed),
        );
        self.device.bind()?;
        for (buffer, regions) in [(&buffers.send, &layout.send), (&buffers.recv, &layout.recv)] {
            for region in regions {
                let address = buffers.address_for(buffer, region, case)?;
                self.kernels
                    .fill(self.device.stream(), address, &key, region)?;
            }
        }
        Ok(())
    }

    /// Counts what is wrong, in the stream's order, after [`RankDevice::fill`] with `seed`.
    ///
    /// # Errors
    /// Where the GPU fails.
    pub(super) fn check(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let (buffers, layout, key) = (
            self.buffers()?,
            case.layout(self.comm.rank().into()),
            case.data(seed),
        );
        self.device.zero(&self.counter)?;
        for region in &layout.expected {
            let address = buffers.address_for(&buffers.recv, region, case)?;
            self.kernels.check(
                self.device.stream(),
                address,
                &key,
                region,
                self.counter.address(),
            )?;
        }
        Ok(())
    }

    /// What [`RankDevice::check`] counted. The stream is empty.
    ///
    /// # Errors
    /// Where the GPU fails.
    pub(super) fn counted(&self) -> anyhow::Result<u64> {
        let mut wrong = [0; mem::size_of::<u64>()];
        self.device.read(&self.counter, 0, &mut wrong)?;
        Ok(u64::from_le_bytes(wrong))
    }

    /// Makes the last checked element of the receive buffer wrong by one bit; `false` where nothing is checked.
    ///
    /// # Errors
    /// Where the GPU fails.
    pub(super) fn corrupt(&self, case: &Case) -> anyhow::Result<bool> {
        let layout = case.layout(self.comm.rank().into());
        let Some(region) = layout.expected.iter().rev().find(|region| region.len > 0) else {
            return Ok(false);
        };
        let buffers = self.buffers()?;
        let at = (buffers.unalign + region.offset + region.len - 1) * case.dtype.size();
        let mut byte = [0];
        self.device.read(&buffers.recv, at, &mut byte)?;
        byte[0] ^= fault_in(&case.data(0), &region.content);
        self.device.write(&buffers.recv, at, &byte)?;
        Ok(true)
    }

    /// Ends this rank's part; nothing runs any more.
    ///
    /// # Errors
    /// Where NCCL or the GPU fails.
    pub(super) fn close(self) -> anyhow::Result<ClosedDevice> {
        self.device.bind()?;
        self.comm.close()?;
        let buffers = self
            .buffers
            .map_or_else(Vec::new, |buffers| vec![buffers.send, buffers.recv]);
        Ok(ClosedDevice {
            device: self.device,
            buffers: buffers.into_iter().chain([self.counter]).collect(),
        })
    }
}

/// A GPU whose communicator has ended.
pub(super) struct ClosedDevice {
    device: Device,
    buffers: Vec<Buffer>,
}

impl ClosedDevice {
    /// Frees its memory.
    ///
    /// # Errors
    /// Where the GPU fails.
    pub(super) fn free(self) -> anyhow::Result<()> {
        self.buffers
            .into_iter()
            .try_for_each(|buffer| self.device.free(buffer))
    }
}

impl Buffers {
    /// The address that kernels take together with `region` of `case`: they add its offset.
    fn address_for(&self, buffer: &Buffer, region: &Region, case: &Case) -> anyhow::Result<u64> {
        let element = case.dtype.size();
        let from = (self.unalign + region.offset) * element;
        buffer
            .part(from, region.len * element)
            .with_context(|| case.to_string())?;
        Ok(buffer.address() + self.unalign * element)
    }
}

// SAFETY: handles are NCCL's numbers for buffers; any one thread may give them back.
unsafe impl Send for Buffers {}
