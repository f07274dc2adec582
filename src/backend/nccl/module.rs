//! [`Module`]: PTX that the driver has compiled for a GPU, with one kernel.

#![expect(
    unsafe_code,
    reason = "kernels are loaded and launched through the CUDA driver's C interface"
)]

use std::{
    ffi::{CStr, c_void},
    ptr,
    sync::Arc,
};

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use crate::{
    exit::{Code, Failure},
    native::cuda::described,
};

/// The source of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModuleSource {
    /// PTX, which ends with a zero byte.
    pub(super) ptx: &'static str,
    /// The only kernel.
    pub(super) entry: &'static CStr,
    /// What messages call what is in it.
    pub(super) name: &'static str,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) blocks: u32,
    /// Threads of a block.
    pub(super) threads: u32,
}

/// A loaded module.
#[derive(Debug)]
pub(super) struct Module {
    context: Arc<CudaContext>,
    module: sys::CUmodule,
    function: sys::CUfunction,
    source: ModuleSource,
}

// SAFETY: a module and its functions belong to a context, not to a thread; the driver allows their
// use from any thread to which the context is bound, and both `launch` and `drop` bind it.
unsafe impl Send for Module {}
// SAFETY: as above; no field changes after `load`.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles `source`.
    ///
    /// # Errors
    /// Returns an error if the driver cannot compile it.
    pub(super) fn load(context: &Arc<CudaContext>, source: ModuleSource) -> Result<Module> {
        let ModuleSource { ptx, entry, name } = source;
        context
            .bind_to_thread()
            .map_err(|error| failure(&format!("cannot use the device for the {name}"), error))?;
        let mut loaded = Module {
            context: Arc::clone(context),
            module: compile(ptx, name)?,
            function: ptr::null_mut(),
            source,
        };
        // SAFETY: the module is loaded, and `loaded` keeps it.
        let found = unsafe { result::module::get_function(loaded.module, entry.to_owned()) };
        loaded.function = found.map_err(|error| {
            let what = format!("the {name} have no entry {}", entry.to_string_lossy());
            failure(&what, error)
        })?;
        Ok(loaded)
    }

    /// Puts the kernel with `parameter` into `stream`.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    ///
    /// # Safety
    /// The kernel takes one parameter, which is laid out as T.
    pub(super) unsafe fn launch<T>(
        &self,
        stream: &CudaStream,
        grid: Grid,
        mut parameter: T,
    ) -> Result<()> {
        let name = self.source.name;
        self.context
            .bind_to_thread()
            .map_err(|error| failure(&format!("cannot use the device for the {name}"), error))?;
        let mut parameters = [ptr::from_mut(&mut parameter).cast::<c_void>()];
        // SAFETY: `function` belongs to the module that `self` keeps loaded; by this function's
        // contract it takes one T, which the driver copies before the call returns.
        unsafe {
            result::launch_kernel(
                self.function,
                (grid.blocks, 1, 1),
                (grid.threads, 1, 1),
                0,
                stream.cu_stream(),
                &mut parameters,
            )
        }
        .map_err(|error| failure(&format!("cannot launch one of the {name}"), error))
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
fn compile(ptx: &str, name: &str) -> Result<sys::CUmodule> {
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
        Err(error) => Err(compile_failure(name, &log, error)),
    }
}

/// Returns the error of a failed compilation, with the compiler's `log` as far as there is one.
fn compile_failure(name: &str, log: &[u8], error: DriverError) -> anyhow::Error {
    let log = CStr::from_bytes_until_nul(log).unwrap_or_default();
    let log = log.to_string_lossy();
    let mut what = format!(
        "the driver cannot compile the {name}; they need driver 525 or newer, and compute \
         capability 7.0 or newer"
    );
    if !log.trim().is_empty() {
        what += &format!(" ({})", log.trim());
    }
    failure(&what, error)
}

pub(super) fn failure(what: &str, error: DriverError) -> anyhow::Error {
    Failure::on_this_rank(Code::Cuda, format!("{what}: {}", described(error)))
}
