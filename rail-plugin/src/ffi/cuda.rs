//! Copies between host memory and a GPU, by the CUDA driver. The driver is loaded when NCCL
//! registers memory of a GPU, and is then in the process anyway.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::OnceLock,
};

use libloading::Library;

use crate::failure::{Code, Failure, Result};

const SUCCESS: c_int = 0;
/// `CUDA_ERROR_NOT_READY`
const NOT_READY: c_int = 600;
/// `CU_STREAM_NON_BLOCKING`: it does not wait for the null stream.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`
const WITHOUT_TIME: c_uint = 2;
/// `CU_MEMHOSTREGISTER_PORTABLE`: pinned for all contexts.
const PORTABLE: c_uint = 1;

/// Declares the functions of cuda.h that are called, one per line.
macro_rules! functions {
    ($($field:ident: $name:literal, fn($($arg:ty),*);)*) => {
        struct Driver {
            $($field: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl Driver {
            /// Looks up all functions.
            ///
            /// # Safety
            /// `library` is libcuda.
            unsafe fn find(library: &Library) -> std::result::Result<Driver, libloading::Error> {
                // SAFETY: the caller guarantees that it is libcuda, and the table has the types of
                // its header.
                unsafe { Ok(Driver { $($field: *library.get($name)?,)* }) }
            }
        }
    };
}

functions! {
    error_name: c"cuGetErrorName", fn(c_int, *mut *const c_char);
    current_context: c"cuCtxGetCurrent", fn(*mut *mut c_void);
    push_context: c"cuCtxPushCurrent_v2", fn(*mut c_void);
    pop_context: c"cuCtxPopCurrent_v2", fn(*mut *mut c_void);
    pin: c"cuMemHostRegister_v2", fn(*mut c_void, usize, c_uint);
    unpin: c"cuMemHostUnregister", fn(*mut c_void);
    priorities: c"cuCtxGetStreamPriorityRange", fn(*mut c_int, *mut c_int);
    create_stream: c"cuStreamCreateWithPriority", fn(*mut *mut c_void, c_uint, c_int);
    destroy_stream: c"cuStreamDestroy_v2", fn(*mut c_void);
    create_event: c"cuEventCreate", fn(*mut *mut c_void, c_uint);
    record_event: c"cuEventRecord", fn(*mut c_void, *mut c_void);
    query_event: c"cuEventQuery", fn(*mut c_void);
    destroy_event: c"cuEventDestroy_v2", fn(*mut c_void);
    copy_to_host: c"cuMemcpyDtoHAsync_v2", fn(*mut c_void, u64, usize, *mut c_void);
    copy_to_gpu: c"cuMemcpyHtoDAsync_v2", fn(u64, *const c_void, usize, *mut c_void);
}

impl Driver {
    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: the function writes a pointer to a constant string of the driver, or null, and
        // the string ends in a zero byte.
        let name = unsafe {
            (self.error_name)(code, &mut name);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy())
        };
        let name = name.unwrap_or_default();
        Err(Failure::new(
            Code::Cuda,
            format!("{doing} for a rail failed with CUDA error {code} {name}."),
        ))
    }
}

/// Returns the driver, which is loaded once and never unloaded.
fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<std::result::Result<Driver, String>> = OnceLock::new();
    let load = || {
        // SAFETY: loading libcuda runs its own initialisation only, and the process has loaded it
        // before.
        let library = unsafe { Library::new("libcuda.so.1") }?;
        // SAFETY: that is libcuda.
        let driver = unsafe { Driver::find(&library) };
        std::mem::forget(library);
        driver
    };
    let loaded =
        DRIVER.get_or_init(|| load().map_err(|error: libloading::Error| error.to_string()));
    loaded.as_ref().map_err(|error| {
        Failure::new(
            Code::System,
            format!("A rail cannot use the CUDA driver: {error}."),
        )
    })
}

/// A stream of its own in the context of a GPU, with an event for each block of host memory.
pub(super) struct Copies {
    driver: &'static Driver,
    context: *mut c_void,
    stream: *mut c_void,
    events: Vec<*mut c_void>,
    /// Host memory that is pinned.
    pinned: *mut c_void,
}

// SAFETY: the pointers are handles of the driver, which may be used by any thread, and memory that
// whoever owns this owns.
unsafe impl Send for Copies {}

impl Copies {
    /// Makes a stream in this thread's context with events for `blocks` blocks, and pins `memory`.
    ///
    /// # Errors
    /// Returns an error if there is no context, or the driver refuses.
    ///
    /// # Safety
    /// The memory lives longer than the result.
    pub(super) unsafe fn new(memory: *mut u8, bytes: usize, blocks: usize) -> Result<Copies> {
        let driver = driver()?;
        let mut copies = Copies {
            driver,
            context: ptr::null_mut(),
            stream: ptr::null_mut(),
            events: vec![ptr::null_mut(); blocks],
            pinned: ptr::null_mut(),
        };
        // SAFETY: all functions have the types of cuda.h; they write to what is passed, which lives
        // as long as the call, and what they make is used until `copies` is dropped. The caller
        // guarantees that the memory stays.
        unsafe {
            driver.check(
                (driver.current_context)(&mut copies.context),
                "Getting the context",
            )?;
            if copies.context.is_null() {
                return Err(Failure::new(
                    Code::Cuda,
                    "NCCL registers memory of a GPU with a rail in a thread without a CUDA \
                     context.",
                ));
            }
            // Streams of one priority share CUDA's hardware queues. Queued behind kernels that
            // themselves wait for this copy, it would never start; the highest priority has queues
            // of its own.
            let (mut least, mut most) = (0, 0);
            driver.check(
                (driver.priorities)(&mut least, &mut most),
                "Getting the priorities of streams",
            )?;
            driver.check(
                (driver.create_stream)(&mut copies.stream, NON_BLOCKING, most),
                "Making a stream",
            )?;
            for event in &mut copies.events {
                driver.check(
                    (driver.create_event)(event, WITHOUT_TIME),
                    "Making an event",
                )?;
            }
            let memory = memory.cast();
            driver.check((driver.pin)(memory, bytes, PORTABLE), "Pinning memory")?;
            copies.pinned = memory;
        }
        Ok(copies)
    }

    /// Calls `work` with the GPU's context, and leaves the thread its own.
    fn in_context<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let driver = self.driver;
        // SAFETY: the context was current when this was made, and NCCL closes connections before
        // contexts.
        let code = unsafe { (driver.push_context)(self.context) };
        driver.check(code, "Entering the context")?;
        let result = work();
        let mut popped = ptr::null_mut();
        // SAFETY: the function writes one pointer.
        let code = unsafe { (driver.pop_context)(&mut popped) };
        driver.check(code, "Leaving the context")?;
        result
    }

    /// Starts a copy from a GPU to host memory.
    ///
    /// # Errors
    /// Returns an error if the driver refuses.
    ///
    /// # Safety
    /// Both are there, and nobody else uses either, until [`Copies::is_done`] says so for `block`.
    pub(super) unsafe fn start_to_host(
        &self,
        block: usize,
        to: *mut u8,
        from: usize,
        bytes: usize,
    ) -> Result<()> {
        let driver = self.driver;
        self.in_context(|| {
            // SAFETY: the caller guarantees that the memory is there; stream and event are of the
            // context that is current.
            unsafe {
                let code = (driver.copy_to_host)(to.cast(), from as u64, bytes, self.stream);
                driver.check(code, "Copying from a GPU")?;
                let code = (driver.record_event)(self.events[block], self.stream);
                driver.check(code, "Recording an event")
            }
        })
    }

    /// Starts a copy from host memory to a GPU.
    ///
    /// # Errors
    /// Returns an error if the driver refuses.
    ///
    /// # Safety
    /// Both are there, and nobody else writes to either, until [`Copies::is_done`] says so for
    /// `block`.
    pub(super) unsafe fn start_to_gpu(
        &self,
        block: usize,
        to: usize,
        from: *const u8,
        bytes: usize,
    ) -> Result<()> {
        let driver = self.driver;
        self.in_context(|| {
            // SAFETY: the caller guarantees that the memory is there; stream and event are of the
            // context that is current.
            unsafe {
                let code = (driver.copy_to_gpu)(to as u64, from.cast(), bytes, self.stream);
                driver.check(code, "Copying to a GPU")?;
                let code = (driver.record_event)(self.events[block], self.stream);
                driver.check(code, "Recording an event")
            }
        })
    }

    /// Returns whether the copy of a block is complete.
    ///
    /// # Errors
    /// Returns an error if it failed.
    pub(super) fn is_done(&self, block: usize) -> Result<bool> {
        // SAFETY: the event lives as long as this.
        match unsafe { (self.driver.query_event)(self.events[block]) } {
            NOT_READY => Ok(false),
            code => {
                self.driver.check(code, "A copy")?;
                Ok(true)
            }
        }
    }
}

impl Drop for Copies {
    /// Gives all back. If the driver refuses, as at the end of the process, there is nothing left
    /// to give back.
    fn drop(&mut self) {
        let driver = self.driver;
        let _ = self.in_context(|| {
            // SAFETY: these were made above and are used for the last time; whoever owns this has
            // waited for the copies.
            unsafe {
                if !self.stream.is_null() {
                    (driver.destroy_stream)(self.stream);
                }
                for event in self.events.iter().filter(|event| !event.is_null()) {
                    (driver.destroy_event)(*event);
                }
                if !self.pinned.is_null() {
                    (driver.unpin)(self.pinned);
                }
            }
            Ok(())
        });
    }
}
