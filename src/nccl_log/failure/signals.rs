//! Signals that ended processes, in the words of shells, launchers and PyTorch.

use super::{
    known::{ABORTED, FAULT, KILLED, Known},
    watchdog::number_after,
};

/// Names of a signal, its number, and what it means.
const SIGNALS: [(&[&str], u64, Known); 6] = [
    (&["SIGSEGV", "Segmentation fault"], 11, FAULT),
    (&["SIGBUS", "Bus error"], 7, FAULT),
    (&["SIGFPE", "Floating point exception"], 8, FAULT),
    (&["SIGILL", "Illegal instruction"], 4, FAULT),
    (&["SIGABRT", "Aborted"], 6, ABORTED),
    (&["SIGKILL", "Killed"], 9, KILLED),
];

/// Words before a signal's number.
const NUMBERS: [&str; 4] = ["exitcode: -", "exitcode  : -", "signal ", "Signal "];

/// Returns what the signal in `line` means. SIGTERM, by which launchers end the other processes, is
/// none.
pub(super) fn read_signal(line: &str) -> Option<Known> {
    for (names, _, known) in SIGNALS {
        if names.iter().any(|name| line.contains(name)) {
            return Some(known);
        }
    }
    let number = NUMBERS.iter().find_map(|words| number_after(line, words))?;
    let found = SIGNALS.iter().find(|(_, signal, _)| *signal == number);
    found.map(|(_, _, known)| *known)
}
