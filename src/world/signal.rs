//! Signals: a request to stop, which the ranks follow together at the next case.
//!
//! SIGINT, SIGTERM and SIGHUP mean that the job is to end now: mpirun kills the remaining processes
//! a second later, so a rank that does not reach the next case in time ends the job itself. SIGUSR1
//! is Slurm's warning before the time limit, which leaves time to finish the case. A process that
//! launches ranks passes signals on to the launcher instead.

#![expect(
    unsafe_code,
    reason = "std sends no signal but SIGKILL, and reaps whatever it waits for"
)]

use std::{
    io,
    mem::MaybeUninit,
    process::{Child, ExitStatus},
    sync::atomic::{AtomicI32, Ordering},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};

use super::abort;

/// The last signal received; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// The process that signals are passed on to; 0 for none.
static RELAY_TO: AtomicI32 = AtomicI32::new(0);

/// How long a case may continue after SIGHUP, SIGINT or SIGTERM. mpirun kills a second after it has
/// passed the signal on.
const GRACE: Duration = Duration::from_millis(600);

/// Installs the handlers. It is the first call in `main`, since a signal kills a process that has
/// no handler yet.
///
/// # Errors
/// Returns an error if the system refuses.
pub fn install() -> io::Result<()> {
    on_signal(|signal| {
        if signal != SIGUSR1 {
            stop(signal);
        }
    })
}

/// Installs the handlers of a process that launches ranks: a signal is passed on to the process of
/// [`wait_and_relay`].
///
/// # Errors
/// Returns an error if the system refuses.
pub fn install_relay() -> io::Result<()> {
    on_signal(relay)
}

/// Notes each signal and calls `handle` with it, on a thread of its own.
fn on_signal(handle: fn(i32)) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            RECEIVED.store(signal, Ordering::SeqCst);
            handle(signal);
        }
    });
    Ok(())
}

/// Saves what was measured, and ends the job unless it ends normally in time.
fn stop(signal: i32) {
    let reason = format!("stopped by {}; finished cases are kept", name(signal));
    abort::save_before_stop(&reason);
    thread::sleep(GRACE);
    abort::end_by_signal(&reason);
}

/// Waits for `child` to end, and passes signals on to it, including one that came before.
///
/// # Errors
/// Returns an error if the system refuses to wait.
pub fn wait_and_relay(child: &mut Child) -> io::Result<ExitStatus> {
    relay_to(Some(child.id()));
    // `wait` would reap the child while a signal may still be on its way to its number.
    let ended = wait_without_reaping(child.id());
    relay_to(None);
    ended?;
    child.wait()
}

/// Waits for a child to end, and leaves it to be reaped.
fn wait_without_reaping(process: u32) -> io::Result<()> {
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let options = libc::WEXITED | libc::WNOWAIT;
    loop {
        // SAFETY: the call writes at most one siginfo_t, which is not read.
        let code = unsafe { libc::waitid(libc::P_PID, process, info.as_mut_ptr(), options) };
        if code == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Passes signals on to `process` from now on, including one that came before; `None` stops that.
fn relay_to(process: Option<u32>) {
    RELAY_TO.store(process.map_or(0, |pid| pid as i32), Ordering::SeqCst);
    match RECEIVED.load(Ordering::SeqCst) {
        0 => {}
        signal => relay(signal),
    }
}

fn relay(signal: i32) {
    // srun answers the first SIGINT with a report and continues; SIGTERM ends it.
    let signal = if signal == SIGINT { SIGTERM } else { signal };
    match RELAY_TO.load(Ordering::SeqCst) {
        0 => {}
        process => send(process, signal),
    }
}

/// Sends SIGTERM to a process that this one started.
pub fn terminate(process: u32) {
    send(process as i32, SIGTERM);
}

fn send(process: i32, signal: i32) {
    // SAFETY: kill takes two ints and touches no memory of ours. The process is a child that has
    // not been waited for yet, so its number belongs to no other.
    unsafe { libc::kill(process, signal) };
}

/// Returns the signal that asked to stop, if one has come.
pub fn received() -> Option<&'static str> {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(name(signal)),
    }
}

fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
