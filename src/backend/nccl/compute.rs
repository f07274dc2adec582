//! [`ComputeKernel`]: computation of a known amount on a GPU, `compute.cu`.

#![expect(unsafe_code, reason = "kernels are launched with untyped parameters")]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, sys};

use super::{
    kernels::ptx,
    module::{Grid, Module, ModuleSource, failure},
};

const SOURCE: ModuleSource = ModuleSource {
    ptx: ptx!("compute"),
    entry: c"compute",
    name: "kernels of computation",
};

/// Threads of a block: half of those that a multiprocessor of most GPUs runs at once.
const THREADS: u32 = 1024;

/// The parameter of the kernel, laid out as in `compute.cu`.
#[repr(C)]
struct Computation {
    /// Iterations of each thread.
    iterations: u32,
    /// No result is less than this.
    never: f32,
    nowhere: sys::CUdeviceptr,
}

const _: () = assert!(
    size_of::<Computation>() == 16,
    "compute.cu has the same layout"
);

/// The kernel on one device.
pub(super) struct ComputeKernel {
    module: Module,
    /// Blocks of one wave: as many as run at once on the share of the GPU that computes.
    blocks: u32,
}

impl ComputeKernel {
    /// Compiles the kernel for the device of `context`, a wave of which fills `share` of what its
    /// multiprocessors run at once.
    ///
    /// # Errors
    /// Returns an error if the driver cannot compile it.
    pub(super) fn load(context: &Arc<CudaContext>, share: f64) -> anyhow::Result<ComputeKernel> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR as THREADS_AT_ONCE,
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as MULTIPROCESSORS,
        };
        let attribute = |which| {
            let value = context.attribute(which);
            value.map_err(|error| failure("cannot read the size of the device", error))
        };
        let multiprocessors = attribute(MULTIPROCESSORS)?.max(1) as u32;
        let blocks_of_each = (attribute(THREADS_AT_ONCE)?.max(0) as u32 / THREADS).max(1);
        let full = f64::from(multiprocessors * blocks_of_each);
        Ok(ComputeKernel {
            module: Module::load(context, SOURCE)?,
            blocks: (full * share).round().clamp(1.0, full) as u32,
        })
    }

    /// Puts a kernel of `waves` waves of blocks into `stream`, of which each thread makes
    /// `iterations` iterations.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn launch(
        &self,
        stream: &CudaStream,
        waves: u32,
        iterations: u32,
    ) -> anyhow::Result<()> {
        let grid = Grid {
            blocks: self.blocks.saturating_mul(waves),
            threads: THREADS,
        };
        let computation = Computation {
            iterations,
            never: -1.0,
            nowhere: 0,
        };
        // SAFETY: the kernel takes one `Computation`, laid out as here.
        unsafe { self.module.launch(stream, grid, computation) }
    }
}
