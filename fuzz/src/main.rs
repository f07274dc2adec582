//! The fuzzer: libFuzzer, and the parser that the variable `PXNBENCH_FUZZ` names.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pxnbench::fuzzing::{self, FuzzTarget};

/// The variable with the name of the parser.
const TARGET: &str = "PXNBENCH_FUZZ";

fuzz_target!(|bytes: &[u8]| {
    static CHOSEN: OnceLock<FuzzTarget> = OnceLock::new();
    let target = CHOSEN.get_or_init(|| {
        let name = std::env::var(TARGET).unwrap_or_default();
        fuzzing::find(&name).unwrap_or_else(|| panic!("{TARGET}={name} is none of the parsers"))
    });
    (target.read)(bytes);
});
