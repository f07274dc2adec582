//! NCCL's logger.

use std::{
    ffi::{CString, c_int, c_ulong},
    sync::{Mutex, PoisonError},
};

use super::abi::Logger;

/// `NCCL_LOG_WARN`, which NCCL always prints, and `NCCL_LOG_INFO`.
const WARN: c_int = 2;
const INFO: c_int = 3;
/// `NCCL_NET`, the subsystem.
const NET: c_ulong = 0x10;

static LOGGER: Mutex<Option<Logger>> = Mutex::new(None);

/// Keeps the logger that NCCL passed.
pub(super) fn keep(logger: Option<Logger>) {
    let mut kept = LOGGER.lock().unwrap_or_else(PoisonError::into_inner);
    if logger.is_some() {
        *kept = logger;
    }
}

pub(super) fn warn(sentence: &str) {
    say(WARN, sentence);
}

pub(super) fn info(sentence: &str) {
    say(INFO, sentence);
}

fn say(level: c_int, sentence: &str) {
    let logger = *LOGGER.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(logger), Ok(text)) = (logger, CString::new(sentence)) else {
        return;
    };
    // SAFETY: NCCL's logger takes a level, a subsystem, a file, a line, and a format with its
    // values, as printf does; all strings end in a zero byte and live until it returns.
    unsafe {
        logger(
            level,
            NET,
            c"pxnbench-rails".as_ptr(),
            0,
            c"%s".as_ptr(),
            text.as_ptr(),
        );
    }
}
