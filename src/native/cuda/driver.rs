//! The loaded library: the table of its functions, and what a result code means.

use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void},
    fmt,
    path::PathBuf,
    ptr,
    sync::OnceLock,
};

use cudarc::driver::{DriverError, sys};
use libloading::Library;

use crate::{
    exit::{Code, Failure},
    native::symbol::{Symbol, file_of, symbols, text},
};

/// `CUDA_SUCCESS`.
pub(super) const SUCCESS: c_int = 0;

/// The type of cuGetErrorName and cuGetErrorString.
type ErrorText = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// A version of CUDA in the driver's encoding: 12040 is 12.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(pub c_int);

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

symbols! {
    /// The functions of cuda.h that this program calls without cudarc.
    Symbols {
        init: "cuInit" since "2.0", fn(c_uint) -> c_int;
        driver_get_version: "cuDriverGetVersion" since "2.2", fn(*mut c_int) -> c_int;
        get_error_name: "cuGetErrorName" since "6.0", fn(c_int, *mut *const c_char) -> c_int;
        get_error_string: "cuGetErrorString" since "6.0", fn(c_int, *mut *const c_char) -> c_int;
        device_get_count: "cuDeviceGetCount" since "2.0", fn(*mut c_int) -> c_int;
        device_get: "cuDeviceGet" since "2.0", fn(*mut c_int, c_int) -> c_int;
        device_get_name: "cuDeviceGetName" since "2.0", fn(*mut c_char, c_int, c_int) -> c_int;
        device_get_uuid: "cuDeviceGetUuid" since "9.2", fn(*mut [u8; 16], c_int) -> c_int;
        device_get_uuid_v2: "cuDeviceGetUuid_v2" since "11.4", fn(*mut [u8; 16], c_int) -> c_int;
        device_total_mem: "cuDeviceTotalMem_v2" since "3.2", fn(*mut usize, c_int) -> c_int;
        device_get_attribute: "cuDeviceGetAttribute" since "2.0", fn(*mut c_int, c_int, c_int) -> c_int;
        device_get_p2p_attribute: "cuDeviceGetP2PAttribute" since "8.0", fn(*mut c_int, c_int, c_int, c_int) -> c_int;
        primary_ctx_retain: "cuDevicePrimaryCtxRetain" since "7.0", fn(*mut *mut c_void, c_int) -> c_int;
        ctx_set_current: "cuCtxSetCurrent" since "4.0", fn(*mut c_void) -> c_int;
        mem_get_info: "cuMemGetInfo_v2" since "3.2", fn(*mut usize, *mut usize) -> c_int;
        mem_alloc: "cuMemAlloc_v2" since "3.2", fn(*mut u64, usize) -> c_int;
        mem_free: "cuMemFree_v2" since "3.2", fn(u64) -> c_int;
        memcpy_to_host: "cuMemcpyDtoH_v2" since "3.2", fn(*mut c_void, u64, usize) -> c_int;
        memcpy_to_device_async: "cuMemcpyHtoDAsync_v2" since "3.2", fn(u64, *const c_void, usize, *mut c_void) -> c_int;
        memcpy_async: "cuMemcpyDtoDAsync_v2" since "3.2", fn(u64, u64, usize, *mut c_void) -> c_int;
        memset_async: "cuMemsetD8Async" since "3.2", fn(u64, c_uchar, usize, *mut c_void) -> c_int;
        stream_query: "cuStreamQuery" since "2.0", fn(*mut c_void) -> c_int;
    }
}

/// Returns the error of this rank that CUDA caused.
pub(super) fn failure(what: impl Into<String>) -> anyhow::Error {
    Failure::on_this_rank(Code::Cuda, what)
}

/// The loaded driver.
pub struct Driver {
    pub(super) symbols: Symbols,
}

/// Returns the library, not yet initialised; `None` if there is none.
pub(super) fn library() -> Option<&'static Driver> {
    static LIBRARY: OnceLock<Option<Driver>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref()
}

fn load() -> Option<Driver> {
    // SAFETY: loading libcuda runs only its own initialisation. cudarc loads it, so that both use
    // the same file; culib() would panic if there were none.
    let library = unsafe { sys::is_culib_present().then(|| sys::culib()) }?;
    Some(Driver::new(library))
}

/// Describes the error of a call of cudarc as this module describes its own.
pub fn described(error: DriverError) -> String {
    let code = error.0 as c_int;
    library().map_or_else(|| format!("code {code}"), |driver| driver.explain(code))
}

/// Returns the remedy for a call that returned `code`.
fn remedy(code: c_int) -> &'static str {
    match code {
        2 => "nvidia-smi shows what else uses the GPU's memory; end that, or lower -e",
        46 => {
            "nvidia-smi shows whether another process has the GPU to itself, and the compute mode"
        }
        218 | 222 => "nvidia-smi shows the driver's version",
        900..=908 => "run it without -G",
        _ => "see whether nvidia-smi works on this node, and look for Xid in dmesg",
    }
}

/// Calls `$field` of the table with `$arg`s and checks the result.
macro_rules! call {
    ($driver:expr, $field:ident($($arg:expr),*)) => {{
        let driver: &Driver = $driver;
        let function = driver.symbols.$field.get().map_err(|missing| {
            failure(format!("the driver has no {}; it needs CUDA {} or newer", missing.name, missing.since))
        })?;
        // SAFETY: the function has the type that cuda.h gives it, the results are written to
        // variables of that type, and unsafe callers of this macro are told what the other
        // arguments must be.
        let code = unsafe { function($($arg),*) };
        driver.check(driver.symbols.$field.name, code)
    }};
}
pub(super) use call;

impl Driver {
    /// Looks up the functions of `library`.
    fn new(library: &Library) -> Driver {
        Driver {
            // SAFETY: the table is made from cuda.h, and cudarc found this library by libcuda's
            // name.
            symbols: unsafe { Symbols::find(library) },
        }
    }

    /// Returns the library's file.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(self.symbols.init.get().ok()? as *const c_void)
    }

    /// Returns the names of the functions that this program may call and the driver lacks.
    pub fn missing(&self) -> Vec<&'static str> {
        self.symbols.missing()
    }

    /// Returns the newest CUDA that the driver supports.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    #[doc(alias = "cuDriverGetVersion")]
    pub fn version(&self) -> anyhow::Result<CudaVersion> {
        let mut version = 0;
        call!(self, driver_get_version(&mut version))?;
        Ok(CudaVersion(version))
    }

    /// Returns `CUDA_ERROR_NO_DEVICE`, or `unknown error` for a code that the driver does not know.
    #[doc(alias = "cuGetErrorName")]
    pub(super) fn name_of(&self, code: c_int) -> String {
        match self.ask_text(&self.symbols.get_error_name, code) {
            Some(name) => name.to_string_lossy().into_owned(),
            None => "unknown error".into(),
        }
    }

    /// Returns `CUDA_ERROR_NO_DEVICE (code 100): no CUDA-capable device is detected`.
    #[doc(alias = "cuGetErrorString")]
    fn describe(&self, code: c_int) -> String {
        let name = self.name_of(code);
        match self.ask_text(&self.symbols.get_error_string, code) {
            Some(text) => format!("{name} (code {code}): {}", text.to_string_lossy()),
            None => format!("{name} (code {code})"),
        }
    }

    /// Asks cuGetErrorName or cuGetErrorString about `code`.
    fn ask_text(&self, symbol: &Symbol<ErrorText>, code: c_int) -> Option<&'static CStr> {
        let ask = symbol.get().ok()?;
        let mut string = ptr::null();
        // SAFETY: both functions take any integer, and write null or a constant string.
        unsafe {
            let result = ask(code, &mut string);
            if result == SUCCESS {
                text(string)
            } else {
                None
            }
        }
    }

    /// Describes `code`, and says what to do.
    #[cold]
    fn explain(&self, code: c_int) -> String {
        format!("{}; {}", self.describe(code), remedy(code))
    }

    /// Returns an error if `code` is not that of success.
    #[inline]
    pub(super) fn check(&self, function: &str, code: c_int) -> anyhow::Result<()> {
        if code == SUCCESS {
            Ok(())
        } else {
            Err(failure(format!(
                "{function} failed: {}",
                self.explain(code)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_decoded() {
        for (code, text) in [(13000, "13.0"), (12040, "12.4"), (11080, "11.8")] {
            assert_eq!(CudaVersion(code).to_string(), text);
        }
    }

    #[test]
    fn a_failed_call_says_what_to_do() {
        for (code, part) in [
            (2, "lower -e"),
            (901, "without -G"),
            (700, "Xid"),
            (719, "Xid"),
        ] {
            assert!(remedy(code).contains(part), "{code}: {}", remedy(code));
        }
    }
}
