//! Signals: a request to stop, which the ranks honour together at the next case.
//!
//! SIGINT and SIGTERM come when someone wants the job gone: mpirun kills what is left a second later, so a rank that
//! does not reach the next case in time ends the job itself. SIGUSR1 is Slurm's warning before the time limit, with time
//! to finish the case.

use std::{
    sync::atomic::{AtomicI32, Ordering},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};

use super::abort;

static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// How long a case may go on after SIGINT or SIGTERM. mpirun kills a second after it passes the signal on.
const GRACE: Duration = Duration::from_millis(600);

/// Installs the handlers. Called first thing in `main`, since a signal kills a process that has no handler yet.
///
/// # Errors
/// Where the system refuses.
pub fn install() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            RECEIVED.store(signal, Ordering::SeqCst);
            if signal != SIGUSR1 {
                let sentence = format!("stopped by {}; finished cases are kept", name(signal));
                abort::save_before_stop(&sentence);
                thread::sleep(GRACE);
                abort::by_signal(&sentence);
            }
        }
    });
    Ok(())
}

/// The signal that asks to stop, if one has come.
pub fn received() -> Option<&'static str> {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(name(signal)),
    }
}

fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
