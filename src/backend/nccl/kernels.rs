//! The kernels that fill and check device buffers: `kernels.cu`, shipped as PTX, which the driver
//! compiles for whatever GPU it finds. The program needs neither nvcc nor NVRTC to run.
//!
//! Each [`ElementEncoding`] has a module of its own, which is compiled when it is first needed:
//! most runs use one or two.
//!
//! A launch returns at once; its effect is visible once the stream has passed it.

#![expect(
    unsafe_code,
    reason = "kernels are loaded and launched through the CUDA driver's C interface"
)]

use std::{
    collections::BTreeSet,
    ffi::CStr,
    sync::{Arc, OnceLock},
};

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaStream, sys};

use super::module::{Grid, Module, ModuleSource, failure};
use crate::collective::data::{DataKey, ElementEncoding, Recipe, Region};

/// The text of one module, with the zero byte that the driver expects at its end.
macro_rules! ptx {
    ($name:literal) => {
        concat!(include_str!(concat!("ptx/", $name, ".ptx")), "\0")
    };
}
pub(super) use ptx;

/// The module of each [`ElementEncoding`], in the order of that type. `scripts/make-ptx.sh`
/// generates them, and `tests/kernels.rs` checks that they are up to date.
const PTX: [&str; 10] = [
    ptx!("bits8"),
    ptx!("bits16"),
    ptx!("bits32"),
    ptx!("bits64"),
    ptx!("half"),
    ptx!("bfloat16"),
    ptx!("float"),
    ptx!("double"),
    ptx!("f8e4m3"),
    ptx!("f8e5m2"),
];

/// The entry point of each module.
const ENTRY: &CStr = c"data";

/// What messages call them.
const NAME: &str = "data kernels";

/// Threads per block.
const THREADS: u32 = 256;

/// Blocks per multiprocessor in a full grid: enough to hide the latency of memory, but so few that
/// the set-up of each thread (a division or two) does not matter.
const BLOCKS_PER_SM: u64 = 16;

/// Bytes that a thread handles per step, if they are aligned.
const STEP: u64 = 16;

/// The parameter of the kernels, laid out as `struct Work` in `kernels.cu`.
#[repr(C)]
struct Work {
    recipe: Recipe,
    address: sys::CUdeviceptr,
    len: u64,
    counter: sys::CUdeviceptr,
}

/// The counter's address if the region is filled instead of checked.
const NO_COUNTER: sys::CUdeviceptr = 0;

const _: () = assert!(
    size_of::<Recipe>() == 88 && size_of::<Work>() == 112,
    "kernels.cu has the same layout"
);

/// The kernels of one device.
#[derive(Debug)]
pub struct Kernels {
    context: Arc<CudaContext>,
    modules: [OnceLock<Module>; PTX.len()],
    /// Blocks of a full grid.
    max_blocks: u64,
}

impl Kernels {
    /// Returns the kernels for the device of `context`, none of them compiled yet.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn new(context: &Arc<CudaContext>) -> Result<Kernels> {
        let multiprocessors = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(|error| failure("cannot read the number of multiprocessors", error))?;
        Ok(Kernels {
            context: Arc::clone(context),
            modules: [const { OnceLock::new() }; PTX.len()],
            max_blocks: BLOCKS_PER_SM * multiprocessors.max(1) as u64,
        })
    }

    /// Makes the driver compile the kernels for `encodings` now instead of at their first use. That
    /// takes a tenth of a second each the first time; the driver keeps the result on disk
    /// (CUDA_CACHE_PATH).
    ///
    /// # Errors
    /// Returns an error if the driver cannot compile them.
    pub fn prepare(&self, encodings: &BTreeSet<ElementEncoding>) -> Result<()> {
        for encoding in encodings {
            self.module(*encoding)?;
        }
        Ok(())
    }

    /// Returns the module for `encoding`. If two threads need it at the same time, both may compile
    /// it, and one result is kept.
    fn module(&self, encoding: ElementEncoding) -> Result<&Module> {
        let index = encoding as usize;
        if let Some(module) = self.modules[index].get() {
            return Ok(module);
        }
        let source = ModuleSource {
            ptx: PTX[index],
            entry: ENTRY,
            name: NAME,
        };
        let module = Module::load(&self.context, source)?;
        Ok(self.modules[index].get_or_init(|| module))
    }

    /// Fills `region` of the buffer at `buffer` with its content.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be compiled or launched.
    pub fn fill(
        &self,
        stream: &CudaStream,
        buffer: sys::CUdeviceptr,
        key: &DataKey,
        region: &Region,
    ) -> Result<()> {
        self.launch(stream, buffer, key, region, NO_COUNTER)
    }

    /// Adds the number of elements of `region` that differ from its content to the u64 at
    /// `counter`.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be compiled or launched.
    pub fn check(
        &self,
        stream: &CudaStream,
        buffer: sys::CUdeviceptr,
        key: &DataKey,
        region: &Region,
        counter: sys::CUdeviceptr,
    ) -> Result<()> {
        self.launch(stream, buffer, key, region, counter)
    }

    fn launch(
        &self,
        stream: &CudaStream,
        buffer: sys::CUdeviceptr,
        key: &DataKey,
        region: &Region,
        counter: sys::CUdeviceptr,
    ) -> Result<()> {
        if region.len == 0 {
            return Ok(());
        }
        let size = key.dtype.size();
        let recipe = Recipe::new(key, &region.content);
        let module = self.module(recipe.kind)?;
        let work = Work {
            recipe,
            address: buffer + region.offset * size,
            len: region.len,
            counter,
        };
        let grid = Grid {
            blocks: self.blocks_for(region.len * size),
            threads: THREADS,
        };
        // SAFETY: the kernel takes one `Work`, laid out as here. The caller chooses the buffer and
        // the region: if they are not memory of the device, CUDA stops the kernel and reports an
        // error on the stream.
        unsafe { module.launch(stream, grid, work) }
    }

    /// Returns the number of blocks that handle `bytes`.
    fn blocks_for(&self, bytes: u64) -> u32 {
        // One step more than the bytes need, because an unaligned stretch touches it.
        let steps = bytes.div_ceil(STEP) + 1;
        let blocks = steps.div_ceil(THREADS.into());
        blocks.min(self.max_blocks) as u32
    }
}
