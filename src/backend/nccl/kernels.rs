//! The kernels that fill and check device buffers: `kernels.cu`, shipped as PTX, which the driver compiles for whatever
//! GPU it finds. Neither nvcc nor NVRTC is needed where the program runs.
//!
//! Each [`ElementEncoding`] of elements has a module of its own, which is compiled when it is first needed: most runs have one or
//! two kinds.
//!
//! A launch returns at once; what it did is there when the stream has come past it.

#![expect(
    unsafe_code,
    reason = "kernels are loaded and launched through the CUDA driver's C interface"
)]

use std::{
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

/// The text of one module, with the zero byte at its end that the driver looks for.
macro_rules! ptx {
    ($name:literal) => {
        concat!(include_str!(concat!("ptx/", $name, ".ptx")), "\0")
    };
}

/// The module that serves each [`ElementEncoding`], in the order of that type. `scripts/make-ptx.sh` makes them, and
/// `tests/kernels.rs` sees that they are up to date.
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

/// The entry of each module.
const ENTRY: &CStr = c"data";

/// Threads of a block, and blocks for each multiprocessor of a full grid: enough to hide the latency of memory, few
/// enough that each thread's start (a division or two) does not matter.
const THREADS: u32 = 256;
const BLOCKS: u64 = 16;

/// The parameter of the kernels, laid out as `struct Work` of `kernels.cu`.
#[repr(C)]
struct Work {
    recipe: Recipe,
    address: sys::CUdeviceptr,
    len: u64,
    counter: sys::CUdeviceptr,
}

const _: () = assert!(
    size_of::<Recipe>() == 88 && size_of::<Work>() == 112,
    "kernels.cu has the same layout"
);

/// The kernels of one device.
#[derive(Debug)]
pub struct Kernels {
    context: Arc<CudaContext>,
    modules: [OnceLock<Module>; PTX.len()],
    most_blocks: u64,
}

impl Kernels {
    /// The kernels for the device of `context`, none of them compiled yet.
    pub fn new(context: &Arc<CudaContext>) -> Result<Kernels> {
        let sms = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(|e| cuda("cannot read the number of multiprocessors", e))?;
        Ok(Kernels {
            context: Arc::clone(context),
            modules: [const { OnceLock::new() }; PTX.len()],
            most_blocks: BLOCKS * sms.max(1) as u64,
        })
    }

    /// Has the driver compile the kernels of `kinds` now, not when they are first used. That takes a tenth of a second
    /// each the first time; the driver keeps the result on disk (CUDA_CACHE_PATH).
    pub fn prepare(&self, kinds: impl IntoIterator<Item = ElementEncoding>) -> Result<()> {
        kinds
            .into_iter()
            .try_for_each(|kind| self.module(kind).map(|_| ()))
    }

    /// The module of `kind`. Two threads that come here at once may both compile it; one of the two is kept.
    fn module(&self, kind: ElementEncoding) -> Result<&Module> {
        let place = &self.modules[kind as usize];
        if let Some(module) = place.get() {
            return Ok(module);
        }
        let module = Module::load(&self.context, PTX[kind as usize])?;
        Ok(place.get_or_init(|| module))
    }

    /// Fills `region` of the buffer at `buffer` with its content.
    pub fn fill(
        &self,
        stream: &CudaStream,
        buffer: sys::CUdeviceptr,
        key: &DataKey,
        region: &Region,
    ) -> Result<()> {
        self.data(stream, buffer, key, region, 0)
    }

    /// Adds to the u64 at `counter` how many elements of `region` are not what its content demands.
    pub fn check(
        &self,
        stream: &CudaStream,
        buffer: sys::CUdeviceptr,
        key: &DataKey,
        region: &Region,
        counter: sys::CUdeviceptr,
    ) -> Result<()> {
        self.data(stream, buffer, key, region, counter)
    }

    fn data(
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
        let function = self.module(recipe.kind)?.data;
        let mut work = Work {
            recipe,
            address: buffer + region.offset * size,
            len: region.len,
            counter,
        };
        // One step more than the bytes need: an unaligned stretch touches it.
        let steps = (region.len * size).div_ceil(16) + 1;
        let blocks = steps.div_ceil(THREADS.into()).min(self.most_blocks) as u32;
        let mut parameters = [ptr::from_mut(&mut work).cast::<c_void>()];
        self.context
            .bind_to_thread()
            .map_err(|e| cuda("cannot use the device for a data kernel", e))?;
        // SAFETY: `function` is of the module that `self` keeps loaded; it takes one `Work`, laid out as here, and the
        // driver copies that before the call returns. Which memory is touched is the caller's choice of buffer and
        // region: where that is no memory of the device, CUDA stops the kernel and reports an error on the stream.
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
        .map_err(|e| cuda("cannot launch a data kernel", e))
    }
}

/// A loaded module.
#[derive(Debug)]
struct Module {
    context: Arc<CudaContext>,
    module: sys::CUmodule,
    data: sys::CUfunction,
}

// SAFETY: a module and its functions belong to a context, not to a thread; the driver allows their use from any thread
// to which the context is bound, and who launches `data` and `drop` bind it.
unsafe impl Send for Module {}
// SAFETY: as above; nothing in here changes after `load`.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles `ptx`, which ends with a zero byte.
    fn load(context: &Arc<CudaContext>, ptx: &str) -> Result<Module> {
        context
            .bind_to_thread()
            .map_err(|e| cuda("cannot use the device for the data kernels", e))?;
        let mut loaded = Module {
            context: Arc::clone(context),
            module: compile(ptx)?,
            data: ptr::null_mut(),
        };
        // SAFETY: the module is loaded, and `loaded` keeps it.
        loaded.data = unsafe { result::module::get_function(loaded.module, ENTRY.to_owned()) }
            .map_err(|e| {
                cuda(
                    &format!("the data kernels have no entry {}", ENTRY.to_string_lossy()),
                    e,
                )
            })?;
        Ok(loaded)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the module was loaded by `load` and nobody else unloads it. That this fails, when the context is
            // already broken, changes nothing: the process is about to end.
            unsafe {
                let _ = result::module::unload(self.module);
            }
        }
    }
}

/// Loads `ptx` into the current context; on failure the error has what the driver's compiler said.
fn compile(ptx: &str) -> Result<sys::CUmodule> {
    debug_assert!(ptx.ends_with('\0'));
    use sys::CUjit_option::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut log = [0u8; 2048];
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes each value in the place of a pointer: a pointer where the option is one, the number itself else.
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        ptr::without_provenance_mut(log.len() - 1),
    ];
    let mut module = ptr::null_mut();
    // SAFETY: `ptx` ends with a zero byte; both arrays have as many entries as is said; `log` outlives the call and has
    // room for the size given.
    let status = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            ptx.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    let said = CStr::from_bytes_until_nul(&log)
        .map(|log| log.to_string_lossy().trim().to_owned())
        .unwrap_or_default();
    status.result().map(|()| module).map_err(|e| {
        let sentence = "the driver cannot compile the data kernels; they need driver 525 or newer, and compute \
                        capability 7.0 or newer";
        cuda(&if said.is_empty() { sentence.to_owned() } else { format!("{sentence} ({said})") }, e)
    })
}

fn cuda(what: &str, error: DriverError) -> anyhow::Error {
    Failure::on_this_rank(Code::Cuda, format!("{what}: {}", described(error)))
}
