//! libcuda: the driver, the GPUs that this process sees, and the calls whose failure must be
//! reported exactly. Contexts, streams and kernels come from cudarc, in [`crate::backend::nccl`].
//!
//! cudarc panics if the library or one of its functions is missing, and its error type is an enum
//! of the codes of CUDA 12.0. So every call that can fail on a broken machine or during a job is
//! made here, with integer codes: that of a failing NVLink, for example, is newer.

#![expect(
    unsafe_code,
    reason = "the functions of libcuda are called as cuda.h declares them"
)]

mod devices;
mod driver;
mod kernel_driver;
mod memory;
mod start;

pub use devices::{CudaGpu, PeerLink, gpus, has_cumem, peer_links, versions};
pub use driver::{CudaVersion, Driver, described};
pub use kernel_driver::kernel_driver;
pub use start::driver;
