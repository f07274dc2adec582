//! Disks that fail or are slow: `disk_fault.cpp`, which is built once for all tests.

use std::path::Path;

use super::preload;

/// What a disk does wrong.
pub struct DiskFault<'a> {
    /// An error such as `EIO`, or the seconds that a call takes.
    pub what: &'a str,
    /// The calls: `open`, `write` and `sync`, with commas between.
    pub calls: &'a str,
    /// A part of the paths that it concerns.
    pub path: &'a str,
    /// How many calls are well before the first fault.
    pub skip: u32,
    /// How many calls have it; all if `None`.
    pub times: Option<u32>,
    /// The file that exists while there is the fault; always if `None`.
    pub while_there: Option<&'a Path>,
}

impl DiskFault<'_> {
    /// Every such call concerns files whose path is yet to be named, and has a fault that is.
    pub fn of(calls: &str) -> DiskFault<'_> {
        DiskFault {
            what: "",
            calls,
            path: "",
            skip: 0,
            times: None,
            while_there: None,
        }
    }

    /// The variables by which a program has this disk; `None`, with a message, if there is no C++
    /// compiler.
    pub fn variables(&self) -> Option<Vec<(&'static str, String)>> {
        let library = preload::library("disk_fault", include_str!("disk_fault.cpp"))?;
        let mut variables = vec![
            ("LD_PRELOAD", library.display().to_string()),
            ("DISK_FAULT", self.what.to_owned()),
            ("DISK_FAULT_CALLS", self.calls.to_owned()),
            ("DISK_FAULT_PATH", self.path.to_owned()),
            ("DISK_FAULT_SKIP", self.skip.to_string()),
        ];
        if let Some(times) = self.times {
            variables.push(("DISK_FAULT_TIMES", times.to_string()));
        }
        if let Some(file) = self.while_there {
            variables.push(("DISK_FAULT_WHILE", file.display().to_string()));
        }
        Some(variables)
    }
}
