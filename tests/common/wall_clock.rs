//! A wall clock that is set while programs run: `wall_clock.cpp`, which is built once for all
//! tests.

use std::{path::Path, process::Command};

use super::preload;

/// Has the wall clock of `command`, and of what it starts, go by `seconds` off once the file `once`
/// exists. Returns whether it can; if there is no C++ compiler, it says so.
#[must_use]
pub fn set(command: &mut Command, seconds: i64, once: &Path) -> bool {
    let source = include_str!("wall_clock.cpp");
    let Some(library) = preload::library("wall_clock", source) else {
        return false;
    };
    command
        .env("LD_PRELOAD", library)
        .env("WALL_CLOCK_ONCE", once)
        .env("WALL_CLOCK_BY", seconds.to_string());
    true
}
