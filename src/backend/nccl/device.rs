//! A GPU: its context, one stream, and buffers in its memory.

#![expect(unsafe_code, reason = "buffers are addresses of GPU memory")]

use std::sync::Arc;

use anyhow::Context;
use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream, DriverError, sys};

use crate::{
    exit::{Code, Failure},
    native::{
        cuda::{self, CudaVersion, Driver, described},
        nccl::{Nccl, RawStream},
    },
    units::Bytes,
};

/// The oldest CUDA whose driver takes our kernels' PTX: driver 525.
const OLDEST: CudaVersion = CudaVersion(12000);

/// A GPU with the stream that everything runs in.
pub struct Device {
    driver: &'static Driver,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

impl Device {
    /// Starts GPU `ordinal` and makes it this thread's. What runs on it runs in a stream of its own, or in the null stream.
    ///
    /// # Errors
    /// Where there is no such GPU, the driver is too old, or the GPU does not start.
    pub fn open(ordinal: usize, null_stream: bool) -> anyhow::Result<Device> {
        let driver = cuda::driver()?;
        let version = driver.version()?;
        if version < OLDEST {
            let what = format!(
                "the driver supports CUDA {version} only; {OLDEST} is needed: update it to 525 or newer"
            );
            return Err(Failure::on_this_rank(Code::Cuda, what));
        }
        driver.start_gpu(ordinal)?;
        let failed = |error: DriverError| {
            Failure::on_this_rank(
                Code::Cuda,
                format!("GPU {ordinal} does not start: {}", described(error)),
            )
        };
        let context = CudaContext::new(ordinal).map_err(failed)?;
        // SAFETY: no `CudaSlice` is made in this program, so that there is nothing for cudarc to keep in order with
        // events. It would wait for the whole GPU when the stream is made.
        unsafe { context.disable_event_tracking() };
        // It makes streams that do not wait for the null stream, as nccl-tests does.
        let stream = if null_stream {
            context.default_stream()
        } else {
            context.new_stream().map_err(failed)?
        };
        Ok(Device {
            driver,
            context,
            stream,
        })
    }

    /// The context, for loading kernels.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The stream, for launching kernels.
    pub fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// The stream, for NCCL.
    pub fn raw_stream(&self) -> RawStream {
        self.stream.cu_stream().cast()
    }

    /// Makes the GPU this thread's, where another one was chosen in between.
    ///
    /// # Errors
    /// Where the driver fails.
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

    /// Does everything run in the null stream?
    pub fn has_null_stream(&self) -> bool {
        self.raw_stream().is_null()
    }

    /// Is the stream empty?
    ///
    /// # Errors
    /// Where something in it failed.
    pub fn is_done(&self) -> anyhow::Result<bool> {
        // The null stream is that of the thread's current GPU.
        self.bind()?;
        // SAFETY: the stream lives as long as this value.
        unsafe { self.driver.is_done(self.raw_stream()) }
    }

    /// The error of a call of cudarc.
    fn failed(&self, what: &str, error: DriverError) -> anyhow::Error {
        Failure::on_this_rank(
            Code::Cuda,
            format!(
                "GPU {}: {what}: {}",
                self.context.ordinal(),
                described(error)
            ),
        )
    }

    /// From now on the stream keeps what it is given, as a graph, and runs nothing.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn begin_capture(&self) -> anyhow::Result<()> {
        // In the other modes the graph of one GPU cannot be made while the stream of the thread's next one still captures.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.stream
            .begin_capture(mode)
            .map_err(|error| self.failed("the capture of a graph does not begin", error))
    }

    /// The graph of what the stream was given.
    ///
    /// # Errors
    /// Where something in it cannot be in a graph.
    pub fn end_capture(&self) -> anyhow::Result<CudaGraph> {
        let failed = |error| self.failed("what NCCL does cannot be captured as a graph", error);
        let graph = self
            .stream
            .end_capture(sys::CUgraphInstantiate_flags(0))
            .map_err(failed)?;
        graph.with_context(|| format!("GPU {}: the capture gave no graph", self.context.ordinal()))
    }

    /// Puts a graph into the stream.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn launch(&self, graph: &CudaGraph) -> anyhow::Result<()> {
        graph
            .launch()
            .map_err(|error| self.failed("a graph cannot be launched", error))
    }

    /// A mark to be set in the stream.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn mark(&self) -> anyhow::Result<CudaEvent> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        self.context
            .new_event(flags)
            .map_err(|error| self.failed("no event", error))
    }

    /// Sets a mark: its time is when all that is in the stream before it has ended.
    ///
    /// # Errors
    /// Where the driver fails.
    #[inline]
    pub fn set(&self, mark: &CudaEvent) -> anyhow::Result<()> {
        mark.record(&self.stream)
            .map_err(|error| self.failed("an event cannot be recorded", error))
    }

    /// Microseconds between two marks of one GPU that have passed.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn between(from: &CudaEvent, to: &CudaEvent) -> anyhow::Result<f64> {
        let failed = |error| {
            Failure::on_this_rank(
                Code::Cuda,
                format!("events cannot be read: {}", described(error)),
            )
        };
        Ok(f64::from(from.elapsed_ms(to).map_err(failed)?) * 1e3)
    }

    /// Free and total memory.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn memory(&self) -> anyhow::Result<(Bytes, Bytes)> {
        self.bind()?;
        self.driver.memory()
    }

    /// Waits until the stream is empty, as nccl-tests does: by asking it over and over, and `pending` each time it is
    /// not yet, which can give up. Never a wait inside the driver, which nothing could end.
    ///
    /// # Errors
    /// Where something in the stream failed, or `pending` did.
    pub fn wait(&self, pending: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        // The null stream is that of the thread's current GPU.
        self.bind()?;
        let stream = self.raw_stream();
        // SAFETY: the stream lives as long as this value.
        while !unsafe { self.driver.is_done(stream) }? {
            pending()?;
            // NCCL's own threads need the processor too.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Allocates `bytes`, with NCCL's allocator where `nccl` is given and has one, as nccl-tests does: NCCL can use
    /// such memory in ways that it cannot use any other.
    ///
    /// # Errors
    /// Where there is not enough memory.
    pub fn allocate(&self, bytes: Bytes, nccl: Option<Arc<Nccl>>) -> anyhow::Result<Buffer> {
        self.bind()?;
        let wanted = usize::try_from(bytes.0.max(1))?;
        let owner = nccl.filter(|nccl| nccl.has_memory());
        let address = match &owner {
            Some(nccl) => nccl.mem_alloc(wanted),
            None => self.driver.allocate(wanted),
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

    /// Frees a buffer. Nothing in the stream may use it any more.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn free(&self, buffer: Buffer) -> anyhow::Result<()> {
        self.bind()?;
        // SAFETY: the buffer is consumed, so that it is freed once; it was allocated by the one that frees it.
        unsafe {
            match &buffer.owner {
                Some(nccl) => nccl.mem_free(buffer.address),
                None => self.driver.free(buffer.address),
            }
        }
    }

    /// Copies from `buffer`, from byte `at` on. The stream is empty.
    ///
    /// # Errors
    /// Where the GPU fails, or the bytes are not in the buffer.
    pub fn read(&self, buffer: &Buffer, at: u64, to: &mut [u8]) -> anyhow::Result<()> {
        let address = buffer.part(at, to.len() as u64)?;
        self.bind()?;
        // SAFETY: `part` made sure that the bytes are the buffer's.
        unsafe { self.driver.read(to, address) }
    }

    /// Copies to `buffer`, from byte `at` on. The stream is empty.
    ///
    /// # Errors
    /// Where the GPU fails, or the bytes are not in the buffer.
    pub fn write(&self, buffer: &Buffer, at: u64, from: &[u8]) -> anyhow::Result<()> {
        let address = buffer.part(at, from.len() as u64)?;
        self.bind()?;
        // SAFETY: `part` made sure that the bytes are the buffer's.
        unsafe { self.driver.write(address, from) }
    }

    /// Sets `buffer` to zero, in the stream's order.
    ///
    /// # Errors
    /// Where the driver fails.
    pub fn zero(&self, buffer: &Buffer) -> anyhow::Result<()> {
        self.bind()?;
        // SAFETY: the whole buffer and nothing else; the stream lives as long as this value.
        unsafe {
            self.driver
                .zero(buffer.address, buffer.bytes.0 as usize, self.raw_stream())
        }
    }
}

/// A stretch of a GPU's memory. [`Device::free`] frees it; dropping it does not, because freeing can wait for the GPU.
pub struct Buffer {
    address: u64,
    bytes: Bytes,
    /// NCCL, where it allocated the buffer.
    owner: Option<Arc<Nccl>>,
}

impl Buffer {
    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The address of `len` bytes from byte `at` on.
    ///
    /// # Errors
    /// Where they are not all in the buffer.
    pub fn part(&self, at: u64, len: u64) -> anyhow::Result<u64> {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.bytes.0);
        anyhow::ensure!(
            fits,
            "{len} bytes from byte {at} on are not in a buffer of {} bytes",
            self.bytes
        );
        Ok(self.address + at)
    }
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
        let error = Device::open(100_000, false).err().expect("an error");
        assert_eq!(crate::exit::code_of(&error), Code::Cuda);
    }
}
