//! Signals: a request to stop, which the ranks honour together at the next case.
//!
//! SIGINT, SIGTERM and SIGHUP come when someone wants the job gone: mpirun kills what is left a second later, so a rank that
//! does not reach the next case in time ends the job itself. SIGUSR1 is Slurm's warning before the time limit, with time
//! to finish the case. A process that launches ranks passes signals on to the launcher instead.

#![expect(unsafe_code, reason = "std sends no signal but SIGKILL")]

use std::{
    sync::atomic::{AtomicI32, Ordering},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};

use super::abort;

static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// The process that signals are passed on to; 0 for none.
static RELAY_TO: AtomicI32 = AtomicI32::new(0);

/// How long a case may go on after SIGINT or SIGTERM. mpirun kills a second after it passes the signal on.
const GRACE: Duration = Duration::from_millis(600);

/// Installs the handlers. Called first thing in `main`, since a signal kills a process that has no handler yet.
///
/// # Errors
/// Where the system refuses.
pub fn install() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1])?;
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

/// As [`install`], in a process that launches ranks: it notes a signal and passes it on to [`relay_to`].
///
/// # Errors
/// Where the system refuses.
pub fn install_relay() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            RECEIVED.store(signal, Ordering::SeqCst);
            relay(signal);
        }
    });
    Ok(())
}

/// From now on signals go to this process, also one that came before; `None` ends it.
pub fn relay_to(process: Option<u32>) {
    RELAY_TO.store(process.map_or(0, |pid| pid as i32), Ordering::SeqCst);
    match RECEIVED.load(Ordering::SeqCst) {
        0 => {}
        signal => relay(signal),
    }
}

fn relay(signal: i32) {
    // srun answers the first SIGINT with a report and goes on; SIGTERM it understands.
    let signal = if signal == SIGINT { SIGTERM } else { signal };
    match RELAY_TO.load(Ordering::SeqCst) {
        0 => {}
        process => send(process, signal),
    }
}

/// Asks a process that was started here to end.
pub fn terminate(process: u32) {
    send(process as i32, SIGTERM);
}

fn send(process: i32, signal: i32) {
    // SAFETY: kill takes two ints and touches no memory of ours. The process is a child that nobody has waited for yet,
    // so that its number belongs to no other.
    unsafe { libc::kill(process, signal) };
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
