//! Contexts, memory and streams.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::driver::{Driver, SUCCESS, call, failure};
use crate::units::Bytes;

/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;

/// Work on a GPU. The memory functions act on the thread's current context.
impl Driver {
    /// Starts the primary context of GPU `ordinal`, which is the one that NCCL uses, makes it
    /// current in this thread, and keeps it until the process ends, so that what cudarc does with
    /// it later can neither fail in a new way nor wait for its end.
    ///
    /// # Errors
    /// Returns an error if there is no such GPU, or another process uses it exclusively.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn start_gpu(&self, ordinal: usize) -> anyhow::Result<()> {
        let count = self.count()?;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        if ordinal >= count {
            return Err(failure(format!(
                "there is no GPU {ordinal}: this process sees {count}. Ask for fewer ranks per \
                 node, or more GPUs"
            )));
        }
        let device = self.device(ordinal)?;
        let mut context = ptr::null_mut();
        call!(self, primary_ctx_retain(&mut context, device))?;
        call!(self, ctx_set_current(context))
    }

    /// Returns the free and the total memory of the current GPU.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    #[doc(alias = "cuMemGetInfo")]
    pub fn memory(&self) -> anyhow::Result<(Bytes, Bytes)> {
        let (mut free, mut total) = (0, 0);
        call!(self, mem_get_info(&mut free, &mut total))?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// Allocates `bytes`, at least 1, on the current GPU.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    #[doc(alias = "cuMemAlloc")]
    pub fn allocate(&self, bytes: usize) -> anyhow::Result<u64> {
        let mut address = 0;
        call!(self, mem_alloc(&mut address, bytes))?;
        Ok(address)
    }

    /// Frees memory from [`Driver::allocate`].
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    ///
    /// # Safety
    /// `address` is from [`Driver::allocate`], is freed once, and nothing uses it any more.
    #[doc(alias = "cuMemFree")]
    pub unsafe fn free(&self, address: u64) -> anyhow::Result<()> {
        call!(self, mem_free(address))
    }

    /// Copies from the GPU.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    ///
    /// # Safety
    /// `address` is memory of the current GPU, at least as large as `to`, and no stream writes it
    /// meanwhile.
    #[doc(alias = "cuMemcpyDtoH")]
    pub unsafe fn read(&self, to: &mut [u8], address: u64) -> anyhow::Result<()> {
        call!(
            self,
            memcpy_to_host(to.as_mut_ptr().cast(), address, to.len())
        )
    }

    /// Copies to the GPU, in the stream's order. The driver keeps a copy of `from` until then.
    /// Without a stream it would be in no order with the kernels of one: such a copy can return
    /// before the GPU has the bytes.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    ///
    /// # Safety
    /// `address` is memory of the stream's GPU, at least as large as `from`, and `stream` is a
    /// stream.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub unsafe fn write(
        &self,
        address: u64,
        from: &[u8],
        stream: *mut c_void,
    ) -> anyhow::Result<()> {
        call!(
            self,
            memcpy_to_device_async(address, from.as_ptr().cast(), from.len(), stream)
        )
    }

    /// Copies `bytes` bytes within the GPU's memory, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    ///
    /// # Safety
    /// Both are memory of the stream's GPU with that many bytes, they do not overlap, and `stream`
    /// is a stream.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    pub unsafe fn copy(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
        stream: *mut c_void,
    ) -> anyhow::Result<()> {
        call!(self, memcpy_async(to, from, bytes, stream))
    }

    /// Sets `bytes` bytes to zero, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    ///
    /// # Safety
    /// `address` is memory of the stream's GPU with that many bytes, and `stream` is a stream.
    #[doc(alias = "cuMemsetD8Async")]
    pub unsafe fn zero(
        &self,
        address: u64,
        bytes: usize,
        stream: *mut c_void,
    ) -> anyhow::Result<()> {
        call!(self, memset_async(address, 0, bytes, stream))
    }

    /// Returns whether everything in `stream` has ended. Does not wait.
    ///
    /// # Errors
    /// Returns an error if something in the stream, or the GPU, failed.
    ///
    /// # Safety
    /// `stream` is a stream.
    #[doc(alias = "cuStreamQuery")]
    #[inline]
    pub unsafe fn is_done(&self, stream: *mut c_void) -> anyhow::Result<bool> {
        let symbol = &self.symbols.stream_query;
        let query = symbol
            .get()
            .map_err(|missing| failure(format!("the driver has no {}", missing.name)))?;
        // SAFETY: the caller guarantees that it is a stream.
        match unsafe { query(stream) } {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            code => self.check(symbol.name, code).map(|()| true),
        }
    }
}
