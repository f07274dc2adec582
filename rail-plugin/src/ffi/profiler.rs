//! NCCL's profiler interface, which tells the rank in each communicator and nothing else: no event
//! is asked for.
//!
//! NCCL looks for a profiler in the net plugin if `NCCL_PROFILER_PLUGIN` names no other.

use std::{
    ffi::{c_char, c_int},
    ptr,
};

use super::{
    abi::{Logger, Opaque, ProfilerV5},
    log,
    net::{answer, plugin},
};

/// What NCCL looks up.
#[unsafe(no_mangle)]
static ncclProfiler_v5: ProfilerV5 = ProfilerV5 {
    name: super::net::NAME,
    init,
    start_event,
    stop_event,
    record_event_state,
    finalize,
};

unsafe extern "C" fn init(
    context: *mut Opaque,
    communicator: u64,
    events: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    _ranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
) -> c_int {
    log::keep(logger);
    answer(|| {
        // SAFETY: NCCL passes places for a pointer and a set of events.
        unsafe {
            context.write(ptr::null_mut());
            events.write(0);
        }
        // Without the net plugin there is nothing to tell the rank.
        if let Ok(plugin) = plugin() {
            plugin.set_rank(communicator, rank);
        }
        Ok(())
    })
}

unsafe extern "C" fn start_event(_context: Opaque, event: *mut Opaque, _what: Opaque) -> c_int {
    answer(|| {
        // SAFETY: NCCL passes a place for a pointer.
        unsafe { event.write(ptr::null_mut()) };
        Ok(())
    })
}

unsafe extern "C" fn stop_event(_event: Opaque) -> c_int {
    0
}

unsafe extern "C" fn record_event_state(_event: Opaque, _state: c_int, _what: Opaque) -> c_int {
    0
}

unsafe extern "C" fn finalize(_context: Opaque) -> c_int {
    0
}
