//! A GPU: its context, one stream, and buffers in its memory.

#![expect(unsafe_code, reason = "buffers are addresses of GPU memory")]

use std::{ops::Range, sync::Arc};

use anyhow::Context;
use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream, DriverError, result, sys};

use super::polling::Polling;
use crate::{
    exit::{Code, Failure},
    native::{
        cuda::{self, CudaVersion, Driver, described},
        cuda_release,
        nccl::{Nccl, RawStream},
    },
    units::{Bytes, Micros},
};

/// The oldest CUDA version whose driver accepts the PTX of our kernels: driver 525.
const OLDEST: CudaVersion = CudaVersion(cuda_release::OLDEST.code());

/// Memory of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct GpuMemory {
    /// What is free.
    pub free: Bytes,
    /// All of it.
    pub total: Bytes,
}

/// The kind of a GPU's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceStream {
    /// The null stream.
    Null,
    /// A stream that, as in nccl-tests, does not wait for the null stream.
    NonBlocking,
    /// As `NonBlocking`, with the highest priority: when a block ends, the GPU starts waiting
    /// blocks of this stream first, even if a kernel of another stream is still running.
    HighPriority,
}

/// A GPU with the stream that everything runs in.
pub struct Device {
    driver: &'static Driver,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

impl Device {
    /// Starts GPU `ordinal` and makes it current on this thread. Its work runs in a stream of this
    /// kind.
    ///
    /// # Errors
    /// Returns an error if there is no such GPU, the driver is too old, or the GPU does not start.
    pub fn open(ordinal: usize, kind: DeviceStream) -> anyhow::Result<Device> {
        let driver = cuda::driver()?;
        let version = driver.version()?;
        if version < OLDEST {
            let what = format!(
                "the driver supports CUDA {version} only; {OLDEST} is needed: update it to 525 or \
                 newer"
            );
            return Err(Failure::on_this_rank(Code::Cuda, what));
        }
        driver.start_gpu(ordinal)?;
        let context = CudaContext::new(ordinal).map_err(|error| start_failure(ordinal, error))?;
        // SAFETY: this program creates no `CudaSlice`, so cudarc has nothing to keep in order with
        // events. It would wait for the whole GPU when the stream is created.
        unsafe { context.disable_event_tracking() };
        let stream = open_stream(&context, kind).map_err(|error| start_failure(ordinal, error))?;
        Ok(Device {
            driver,
            context,
            stream,
        })
    }

    /// Returns the context, for loading kernels.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns the stream, for launching kernels.
    pub fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// Returns the stream, for NCCL.
    pub fn raw_stream(&self) -> RawStream {
        self.stream.cu_stream().cast()
    }

    /// Makes the GPU current on this thread, since another one may have been selected in the
    /// meantime.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn bind(&self) -> anyhow::Result<()> {
        self.context.bind_to_thread().map_err(|error| {
            Failure::on_this_rank(
                Code::Cuda,
                format!(
                    "GPU {} is lost: {}",
                    self.context.ordinal(),
                    described(error)
                ),
            )
        })
    }

    /// Returns whether everything runs in the null stream.
    pub fn has_null_stream(&self) -> bool {
        self.raw_stream().is_null()
    }

    /// Returns whether the stream is empty.
    ///
    /// # Errors
    /// Returns an error if something in the stream failed.
    pub fn is_done(&self) -> anyhow::Result<bool> {
        // The null stream means that of the thread's current GPU.
        self.bind()?;
        // SAFETY: the stream lives as long as this value.
        unsafe { self.driver.is_done(self.raw_stream()) }
    }

    /// Returns the error of a cudarc call.
    fn failure(&self, what: &str, error: DriverError) -> anyhow::Error {
        Failure::on_this_rank(
            Code::Cuda,
            format!(
                "GPU {}: {what}: {}",
                self.context.ordinal(),
                described(error)
            ),
        )
    }

    /// Starts to capture what is put into the stream as a graph, instead of running it.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn begin_capture(&self) -> anyhow::Result<()> {
        // In the other modes the graph of one GPU cannot be created while the stream of the
        // thread's next GPU still captures.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.stream
            .begin_capture(mode)
            .map_err(|error| self.failure("the capture of a graph does not begin", error))
    }

    /// Ends the capture and returns the graph.
    ///
    /// # Errors
    /// Returns an error if something in the stream cannot be captured.
    pub fn end_capture(&self) -> anyhow::Result<CudaGraph> {
        let graph = self
            .stream
            .end_capture(sys::CUgraphInstantiate_flags(0))
            .map_err(|error| self.failure("what NCCL does cannot be captured as a graph", error))?;
        graph.with_context(|| format!("GPU {}: the capture gave no graph", self.context.ordinal()))
    }

    /// Puts a graph into the stream.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn launch(&self, graph: &CudaGraph) -> anyhow::Result<()> {
        graph
            .launch()
            .map_err(|error| self.failure("a graph cannot be launched", error))
    }

    /// Creates an event, to be recorded in the stream.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn event(&self) -> anyhow::Result<CudaEvent> {
        self.event_of(sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// Creates an event that has no time, to be recorded in the stream.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn mark(&self) -> anyhow::Result<CudaEvent> {
        self.event_of(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn event_of(&self, flags: sys::CUevent_flags) -> anyhow::Result<CudaEvent> {
        self.context
            .new_event(Some(flags))
            .map_err(|error| self.failure("an event cannot be created", error))
    }

    /// Records an event in the stream: its time is when everything before it in the stream has
    /// ended.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    #[inline]
    pub fn record(&self, event: &CudaEvent) -> anyhow::Result<()> {
        event
            .record(&self.stream)
            .map_err(|error| self.failure("an event cannot be recorded", error))
    }

    /// Makes what comes next in the stream wait for an event of this GPU, as it was last recorded.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn wait_for(&self, event: &CudaEvent) -> anyhow::Result<()> {
        self.stream
            .wait(event)
            .map_err(|error| self.failure("a stream cannot wait for an event", error))
    }

    /// Returns the time between two events of one GPU that have passed.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn time_between(from: &CudaEvent, to: &CudaEvent) -> anyhow::Result<Micros> {
        let milliseconds = from.elapsed_ms(to).map_err(|error| {
            let what = format!("events cannot be read: {}", described(error));
            Failure::on_this_rank(Code::Cuda, what)
        })?;
        Ok(Micros(f64::from(milliseconds) * 1e3))
    }

    /// Returns the GPU's memory.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn memory(&self) -> anyhow::Result<GpuMemory> {
        self.bind()?;
        let (free, total) = self.driver.memory()?;
        Ok(GpuMemory { free, total })
    }

    /// Waits until the stream is empty by polling it, as nccl-tests does, and calls `check` each
    /// time it is not empty. It never waits inside the driver, where nothing could end the wait.
    ///
    /// # Errors
    /// Returns an error if something in the stream or `check` fails.
    pub fn wait(&self, check: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        // The null stream means that of the thread's current GPU.
        self.bind()?;
        let stream = self.raw_stream();
        let polling = Polling::start();
        // SAFETY: the stream lives as long as this value.
        while !unsafe { self.driver.is_done(stream) }? {
            check()?;
            polling.pause();
        }
        Ok(())
    }

    /// Allocates `bytes`, with NCCL's allocator if `nccl` is given and has one. nccl-tests does the
    /// same, because NCCL can use such memory in ways that it cannot use any other.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn allocate(&self, bytes: Bytes, nccl: Option<Arc<Nccl>>) -> anyhow::Result<Buffer> {
        self.bind()?;
        let size = usize::try_from(bytes.0.max(1))?;
        let owner = nccl.filter(|nccl| nccl.has_memory());
        let address = match &owner {
            Some(nccl) => nccl.mem_alloc(size),
            None => self.driver.allocate(size),
        };
        let address = address.with_context(|| {
            format!(
                "while allocating {bytes} bytes on GPU {}",
                self.context.ordinal()
            )
        })?;
        Ok(Buffer {
            address,
            bytes,
            owner,
        })
    }

    /// Frees a buffer. Nothing in the stream may use it anymore.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn free(&self, buffer: Buffer) -> anyhow::Result<()> {
        self.bind()?;
        // SAFETY: the buffer is consumed, so it is freed once, by the allocator that it came from.
        unsafe {
            match &buffer.owner {
                Some(nccl) => nccl.mem_free(buffer.address),
                None => self.driver.free(buffer.address),
            }
        }
    }

    /// Copies from `buffer`, starting at byte `offset`. The stream is empty.
    ///
    /// # Errors
    /// Returns an error if the GPU fails or the bytes are not in the buffer.
    pub fn read(&self, buffer: &Buffer, offset: u64, to: &mut [u8]) -> anyhow::Result<()> {
        let address = buffer.part(offset, to.len() as u64)?;
        self.bind()?;
        // SAFETY: `part` has checked that the bytes lie in the buffer.
        unsafe { self.driver.read(to, address) }
    }

    /// Copies to `buffer`, starting at byte `offset`, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the GPU fails or the bytes are not in the buffer.
    pub fn write(&self, buffer: &Buffer, offset: u64, from: &[u8]) -> anyhow::Result<()> {
        let address = buffer.part(offset, from.len() as u64)?;
        self.bind()?;
        // SAFETY: `part` has checked that the bytes lie in the buffer; the stream lives as long as
        // this value.
        unsafe { self.driver.write(address, from, self.raw_stream()) }
    }

    /// Copies these bytes of `from` to the same place in `to`, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the driver fails or the bytes are not in both buffers.
    pub fn copy(&self, from: &Buffer, to: &Buffer, bytes: Range<u64>) -> anyhow::Result<()> {
        let length = bytes.end.saturating_sub(bytes.start);
        let source = from.part(bytes.start, length)?;
        let target = to.part(bytes.start, length)?;
        self.bind()?;
        let stream = self.raw_stream();
        // SAFETY: `part` has checked that the bytes lie in the buffers, which are different ones;
        // the stream lives as long as this value.
        unsafe { self.driver.copy(target, source, length as usize, stream) }
    }

    /// Sets `buffer` to zero, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn zero(&self, buffer: &Buffer) -> anyhow::Result<()> {
        self.bind()?;
        // SAFETY: the whole buffer and nothing else; the stream lives as long as this value.
        unsafe {
            self.driver
                .zero(buffer.address, buffer.bytes.0 as usize, self.raw_stream())
        }
    }
}

/// A buffer in GPU memory. [`Device::free`] frees it; dropping it does not, because freeing can
/// wait for the GPU.
pub struct Buffer {
    address: u64,
    bytes: Bytes,
    /// NCCL, if it allocated the buffer.
    owner: Option<Arc<Nccl>>,
}

impl Buffer {
    /// Returns its address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns its size.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Returns the address of `len` bytes that start at byte `offset`.
    ///
    /// # Errors
    /// Returns an error if they are not all in the buffer.
    pub fn part(&self, offset: u64, len: u64) -> anyhow::Result<u64> {
        let end = offset.checked_add(len);
        anyhow::ensure!(
            end.is_some_and(|end| end <= self.bytes.0),
            "{len} bytes from byte {offset} on are not in a buffer of {} bytes",
            self.bytes
        );
        Ok(self.address + offset)
    }
}

fn open_stream(
    context: &Arc<CudaContext>,
    kind: DeviceStream,
) -> Result<Arc<CudaStream>, DriverError> {
    match kind {
        DeviceStream::Null => Ok(context.default_stream()),
        DeviceStream::NonBlocking => context.new_stream(),
        DeviceStream::HighPriority => {
            context.bind_to_thread()?;
            let (_least, greatest) = result::stream::get_priority_range()?;
            context.new_stream_with_priority(greatest)
        }
    }
}

fn start_failure(ordinal: usize, error: DriverError) -> anyhow::Error {
    let what = format!("GPU {ordinal} does not start: {}", described(error));
    Failure::on_this_rank(Code::Cuda, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_inside_the_buffer() {
        let buffer = Buffer {
            address: 1000,
            bytes: Bytes(64),
            owner: None,
        };
        assert_eq!(buffer.part(8, 56).expect("fits"), 1008);
        assert_eq!(buffer.part(64, 0).expect("fits"), 1064);
        assert!(buffer.part(8, 57).is_err() && buffer.part(u64::MAX, 2).is_err());
    }

    #[test]
    fn a_machine_without_that_gpu_says_so() {
        // True with and without a driver: no machine has so many GPUs.
        let error = Device::open(100_000, DeviceStream::NonBlocking)
            .err()
            .expect("an error");
        assert_eq!(crate::exit::code_of(&error), Code::Cuda);
    }
}
