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
    ffi::{CStr, c_void},
    ptr,
    sync::{Arc, OnceLock},
};

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use crate::{
    collective::data::{DataKey, ElementEncoding, Recipe, Region},
    exit::{Code, Failure},
    native::cuda::described,
};

/// The text of one module, with the zero byte that the driver expects at its end.
macro_rules! ptx {
    ($name:literal) => {
        concat!(include_str!(concat!("ptx/", $name, ".ptx")), "\0")
    };
}

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
        let module = Module::load(&self.context, PTX[index])?;
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
        let function = self.module(recipe.kind)?.function;
        let mut work = Work {
            recipe,
            address: buffer + region.offset * size,
            len: region.len,
            counter,
        };
        let blocks = self.blocks_for(region.len * size);
        let mut parameters = [ptr::from_mut(&mut work).cast::<c_void>()];
        self.context
            .bind_to_thread()
            .map_err(|error| failure("cannot use the device for a data kernel", error))?;
        // SAFETY: `function` belongs to the module that `self` keeps loaded; it takes one `Work`,
        // laid out as here, and the driver copies that before the call returns. The caller chooses
        // the buffer and the region: if they are not memory of the device, CUDA stops the kernel
        // and reports an error on the stream.
        unsafe {
            result::launch_kernel(
                function,
                (blocks, 1, 1),
                (THREADS, 1, 1),
                0,
                stream.cu_stream(),
                &mut parameters,
            )
        }
        .map_err(|error| failure("cannot launch a data kernel", error))
    }

    /// Returns the number of blocks that handle `bytes`.
    fn blocks_for(&self, bytes: u64) -> u32 {
        // One step more than the bytes need, because an unaligned stretch touches it.
        let steps = bytes.div_ceil(STEP) + 1;
        let blocks = steps.div_ceil(THREADS.into());
        blocks.min(self.max_blocks) as u32
    }
}

/// A loaded module.
#[derive(Debug)]
struct Module {
    context: Arc<CudaContext>,
    module: sys::CUmodule,
    function: sys::CUfunction,
}

// SAFETY: a module and its functions belong to a context, not to a thread; the driver allows their
// use from any thread to which the context is bound, and both `Kernels::launch` and `drop` bind it.
unsafe impl Send for Module {}
// SAFETY: as above; no field changes after `load`.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles `ptx`, which ends with a zero byte.
    fn load(context: &Arc<CudaContext>, ptx: &str) -> Result<Module> {
        context
            .bind_to_thread()
            .map_err(|error| failure("cannot use the device for the data kernels", error))?;
        let mut loaded = Module {
            context: Arc::clone(context),
            module: compile(ptx)?,
            function: ptr::null_mut(),
        };
        // SAFETY: the module is loaded, and `loaded` keeps it.
        let found = unsafe { result::module::get_function(loaded.module, ENTRY.to_owned()) };
        loaded.function = found.map_err(|error| {
            let what = format!("the data kernels have no entry {}", ENTRY.to_string_lossy());
            failure(&what, error)
        })?;
        Ok(loaded)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the module was loaded by `load`, and nothing else unloads it. If the context
            // is already broken, this fails, which does not matter: the process is about to end.
            unsafe {
                let _ = result::module::unload(self.module);
            }
        }
    }
}

/// Loads `ptx` into the current context. On failure the error quotes the driver's compiler.
fn compile(ptx: &str) -> Result<sys::CUmodule> {
    debug_assert!(ptx.ends_with('\0'));
    use sys::CUjit_option::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut log = [0u8; 2048];
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver passes each value as a pointer: a real one for the buffer, and the size itself in
    // the guise of one.
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        ptr::without_provenance_mut(log.len() - 1),
    ];
    let mut module = ptr::null_mut();
    // SAFETY: `ptx` ends with a zero byte; both arrays have `options.len()` entries; `log` outlives
    // the call and has room for the size given.
    let status = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            ptx.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match status.result() {
        Ok(()) => Ok(module),
        Err(error) => Err(compile_failure(&log, error)),
    }
}

/// Returns the error of a failed compilation, with the compiler's `log` as far as there is one.
fn compile_failure(log: &[u8], error: DriverError) -> anyhow::Error {
    let log = CStr::from_bytes_until_nul(log).unwrap_or_default();
    let log = log.to_string_lossy();
    let mut what = "the driver cannot compile the data kernels; they need driver 525 or newer, and compute capability \
                    7.0 or newer"
        .to_owned();
    if !log.trim().is_empty() {
        what += &format!(" ({})", log.trim());
    }
    failure(&what, error)
}

fn failure(what: &str, error: DriverError) -> anyhow::Error {
    Failure::on_this_rank(Code::Cuda, format!("{what}: {}", described(error)))
}
