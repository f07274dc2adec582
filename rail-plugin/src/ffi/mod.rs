//! What NCCL calls, and what this calls in the CUDA driver: the only unsafe code of this crate.

#![expect(
    unsafe_code,
    reason = "functions with C's calling convention, memory that NCCL names by address, and a \
              library found at run time"
)]

mod abi;
mod buffer;
mod cuda;
mod log;
mod net;
mod profiler;
mod staging;

#[cfg(test)]
pub(crate) use buffer::TestMemory;
pub(crate) use buffer::{Buffer, Memory};
pub(crate) use staging::{BLOCK_BYTES, BLOCKS, Staging};
