//! A loaded library: the table of its functions, and what a result code means.

use std::{
    ffi::{c_char, c_int, c_void},
    fmt,
    path::{Path, PathBuf},
};

use libloading::Library;

use super::{
    config::{RawConfig, RawSimInfo},
    version::NcclVersion,
};
use crate::{
    env,
    exit::{Code, Failure},
    native::symbol::{Missing, Symbol, symbols, text},
};

/// `ncclSuccess`.
pub(super) const SUCCESS: c_int = 0;
/// `ncclInProgress`: a call of a non-blocking communicator has not ended.
pub(super) const IN_PROGRESS: c_int = 7;

/// `ncclUniqueId` as C passes it: by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawId(pub(super) [c_char; 128]);

/// `ncclComm_t`.
pub type RawComm = *mut c_void;

/// `cudaStream_t`, which is `CUstream`.
pub type RawStream = *mut c_void;

symbols! {
    /// The functions of nccl.h that this program calls.
    Symbols {
        get_version: "ncclGetVersion" since "2.0", fn(*mut c_int) -> c_int;
        get_unique_id: "ncclGetUniqueId" since "2.0", fn(*mut RawId) -> c_int;
        get_error_string: "ncclGetErrorString" since "2.0", fn(c_int) -> *const c_char;
        get_last_error: "ncclGetLastError" since "2.13", fn(RawComm) -> *const c_char;
        comm_init_rank_config: "ncclCommInitRankConfig" since "2.14",
            fn(*mut RawComm, c_int, RawId, c_int, *mut RawConfig) -> c_int;
        comm_destroy: "ncclCommDestroy" since "2.0", fn(RawComm) -> c_int;
        comm_get_async_error: "ncclCommGetAsyncError" since "2.4", fn(RawComm, *mut c_int) -> c_int;
        comm_register: "ncclCommRegister" since "2.19",
            fn(RawComm, *mut c_void, usize, *mut *mut c_void) -> c_int;
        comm_deregister: "ncclCommDeregister" since "2.19", fn(RawComm, *mut c_void) -> c_int;
        comm_window_register: "ncclCommWindowRegister" since "2.27",
            fn(RawComm, *mut c_void, usize, *mut *mut c_void, c_int) -> c_int;
        comm_window_deregister: "ncclCommWindowDeregister" since "2.27", fn(RawComm, *mut c_void) -> c_int;
        mem_alloc: "ncclMemAlloc" since "2.19", fn(*mut *mut c_void, usize) -> c_int;
        mem_free: "ncclMemFree" since "2.19", fn(*mut c_void) -> c_int;
        group_start: "ncclGroupStart" since "2.0", fn() -> c_int;
        group_end: "ncclGroupEnd" since "2.0", fn() -> c_int;
        group_simulate_end: "ncclGroupSimulateEnd" since "2.22", fn(*mut RawSimInfo) -> c_int;
        all_reduce: "ncclAllReduce" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        all_gather: "ncclAllGather" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, RawComm, RawStream) -> c_int;
        reduce_scatter: "ncclReduceScatter" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        broadcast: "ncclBroadcast" since "2.2",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        reduce: "ncclReduce" since "2.0",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, RawComm, RawStream) -> c_int;
        redop_create_premulsum: "ncclRedOpCreatePreMulSum" since "2.11",
            fn(*mut c_int, *mut c_void, c_int, c_int, RawComm) -> c_int;
        redop_destroy: "ncclRedOpDestroy" since "2.11", fn(c_int, RawComm) -> c_int;
        send: "ncclSend" since "2.7", fn(*const c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        recv: "ncclRecv" since "2.7", fn(*mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        all_to_all: "ncclAlltoAll" since "2.28",
            fn(*const c_void, *mut c_void, usize, c_int, RawComm, RawStream) -> c_int;
        gather: "ncclGather" since "2.28",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
        scatter: "ncclScatter" since "2.28",
            fn(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream) -> c_int;
    }
}

/// A loaded libnccl. It stays loaded until the process ends, because NCCL's threads run its code.
pub struct Nccl {
    pub(super) path: PathBuf,
    pub(super) version: NcclVersion,
    pub(super) symbols: Symbols,
}

/// Returns the error of this rank that NCCL caused.
pub(super) fn failure(what: impl Into<String>) -> anyhow::Error {
    Failure::on_this_rank(Code::Nccl, what)
}

impl Nccl {
    /// Returns the file that is loaded, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its version.
    pub fn version(&self) -> NcclVersion {
        self.version
    }

    /// Returns the names of the functions that this program calls and the library lacks.
    pub fn missing(&self) -> Vec<&'static str> {
        self.symbols.missing()
    }

    /// Returns whether it can allocate GPU memory.
    pub fn has_memory(&self) -> bool {
        self.symbols.mem_alloc.is_there() && self.symbols.mem_free.is_there()
    }

    /// Returns whether it can register buffers with a communicator.
    pub fn has_registration(&self) -> bool {
        self.symbols.comm_register.is_there() && self.symbols.comm_deregister.is_there()
    }

    /// Returns whether it can register buffers as windows, which have the same address on all
    /// ranks.
    pub fn has_windows(&self) -> bool {
        self.symbols.comm_window_register.is_there()
            && self.symbols.comm_window_deregister.is_there()
    }

    /// Returns whether it has an alltoall of its own.
    pub fn has_all_to_all(&self) -> bool {
        self.symbols.all_to_all.is_there()
    }

    /// Returns whether it has a gather of its own.
    pub fn has_gather(&self) -> bool {
        self.symbols.gather.is_there()
    }

    /// Returns whether it has a scatter of its own.
    pub fn has_scatter(&self) -> bool {
        self.symbols.scatter.is_there()
    }

    /// Returns an error if `code` is not that of success.
    #[inline]
    pub(super) fn check(&self, function: &str, comm: RawComm, code: c_int) -> anyhow::Result<()> {
        if code == SUCCESS {
            Ok(())
        } else {
            Err(failure(self.explain(function, comm, code)))
        }
    }

    /// Describes a failed call, and tells where the reason is.
    #[cold]
    fn explain(&self, function: &str, comm: RawComm, code: c_int) -> String {
        if code == IN_PROGRESS {
            return format!(
                "{function} returned unfinished, because NCCL_COMM_BLOCKING=0 is set in the \
                 environment or in an nccl.conf. Unset it: this program needs blocking \
                 communicators"
            );
        }
        let debug = env::var("NCCL_DEBUG").unwrap_or_default();
        format!(
            "{function} failed: {}{}; {}",
            self.describe(code),
            self.last_error(comm),
            remedy(&debug)
        )
    }

    /// Names a result code: `unhandled cuda error (code 1)`.
    #[doc(alias = "ncclGetErrorString")]
    pub(super) fn describe(&self, code: c_int) -> String {
        // SAFETY: ncclGetErrorString takes any integer and returns a constant string.
        let string = self
            .symbols
            .get_error_string
            .get()
            .ok()
            .and_then(|call| unsafe { text(call(code)) });
        let string = string.map_or("unknown error".into(), |string| string.to_string_lossy());
        format!("{string} (code {code})")
    }

    /// Returns `; NCCL's last error: …`, or nothing if NCCL has no more to say.
    #[doc(alias = "ncclGetLastError")]
    pub(super) fn last_error(&self, comm: RawComm) -> String {
        // SAFETY: ncclGetLastError ignores its argument in all versions so far, and takes null; the
        // string is a static buffer of NCCL. A thread of NCCL may write to it meanwhile, which at
        // worst garbles the sentence.
        let string = self
            .symbols
            .get_last_error
            .get()
            .ok()
            .and_then(|call| unsafe { text(call(comm)) });
        match string.map(|string| string.to_string_lossy().trim().to_owned()) {
            Some(string) if !string.is_empty() => format!("; NCCL's last error: {string}"),
            _ => String::new(),
        }
    }

    /// Returns the error of a call of a function that the library lacks.
    #[cold]
    pub(super) fn lacks(&self, missing: Missing) -> anyhow::Error {
        failure(format!(
            "{} needs NCCL {} or newer, but {self} was found. Load a newer one",
            missing.name, missing.since
        ))
    }
}

impl fmt::Display for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL {} ({})", self.version, self.path.display())
    }
}

/// Returns where to find the reason of a failed call, with this value of `NCCL_DEBUG`.
fn remedy(debug: &str) -> &'static str {
    if ["INFO", "ABORT", "TRACE"]
        .iter()
        .any(|level| debug.eq_ignore_ascii_case(level))
    {
        "NCCL's log has the reason"
    } else {
        "NCCL_DEBUG=INFO writes the reason to NCCL's log"
    }
}

/// Calls the function `$field` with `$arg`s and checks the result. `$comm` is the communicator
/// whose last error is reported.
macro_rules! call {
    ($nccl:expr, $comm:expr, $field:ident($($arg:expr),*)) => {{
        let nccl: &Nccl = $nccl;
        let function = nccl.symbols.$field.get().map_err(|missing| nccl.lacks(missing))?;
        // SAFETY: the function has the type that nccl.h gives it, and each caller of this macro
        // says why its arguments are what NCCL demands.
        let code = unsafe { function($($arg),*) };
        nccl.check(nccl.symbols.$field.name, $comm, code)
    }};
}
pub(super) use call;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::code_of;
    use libloading::os::unix::Library as UnixLibrary;
    use std::ptr;

    #[test]
    fn a_failed_call_says_where_the_reason_is() {
        for debug in ["", "WARN", "VERSION"] {
            assert_eq!(
                remedy(debug),
                "NCCL_DEBUG=INFO writes the reason to NCCL's log"
            );
        }
        for debug in ["INFO", "trace"] {
            assert_eq!(remedy(debug), "NCCL's log has the reason");
        }
    }

    #[test]
    fn a_missing_function_is_an_error_of_its_call() {
        let nccl = Nccl {
            path: "/x/libnccl.so.2".into(),
            version: NcclVersion(22707),
            symbols: no_symbols(),
        };
        // SAFETY: the function is missing, so that nothing is called.
        let error = unsafe { nccl.all_to_all(0, 0, 0, 0, ptr::null_mut(), ptr::null_mut()) }
            .expect_err("an error");
        let sentence = "ncclAlltoAll needs NCCL 2.28 or newer, but NCCL 2.27.7 (/x/libnccl.so.2) \
                        was found. Load a newer one";
        assert_eq!(error.to_string(), sentence);
        assert_eq!(code_of(&error), Code::Nccl);
        assert!(!nccl.has_all_to_all() && nccl.missing().contains(&"ncclAllReduce"));
        assert_eq!(nccl.describe(8), "unknown error (code 8)");
        assert!(
            nccl.explain("ncclSend", ptr::null_mut(), IN_PROGRESS)
                .contains("NCCL_COMM_BLOCKING=0")
        );
    }

    fn no_symbols() -> Symbols {
        let program = Library::from(UnixLibrary::this());
        // SAFETY: this program has none of the table's functions, so no type can be wrong.
        unsafe { Symbols::find(&program) }
    }
}
