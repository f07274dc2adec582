//! Signals: a request to stop, which the ranks follow together at the next case.
//!
//! SIGINT, SIGTERM and SIGHUP mean that the job is to end now: mpirun kills the remaining processes
//! a second later, so a rank that does not reach the next case in time ends the job itself. SIGUSR1
//! is Slurm's warning before the time limit, which leaves time to finish the case. SIGXCPU is the
//! system's warning that the limit of CPU time is reached. A process that launches ranks passes
//! signals on to the launcher instead.

#![expect(
    unsafe_code,
    reason = "std sends no signal but SIGKILL, and reaps whatever it waits for"
)]

use std::{
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU, SIGXFSZ},
    flag,
    iterator::Signals,
};

use super::abort;
use crate::{exit::Code, streams};

/// The last signal received, as [`remember`] stores it; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// The processes that signals are passed on to. Whoever reaps one takes it out first.
static RELAY_TO: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How long a case may continue after SIGHUP, SIGINT or SIGTERM. mpirun kills a second after it has
/// passed the signal on.
const GRACE: Duration = Duration::from_millis(600);

/// Signals that come together are one request: a terminal sends SIGINT to the ranks, and so does
/// their launcher.
const TOGETHER: Duration = Duration::from_millis(100);

/// How long a process that launches ranks, and was asked to stop, waits for a reader of what it
/// prints.
const READ_WITHIN: Duration = Duration::from_secs(3);

/// Whether a thread looks at the writes of such a process.
static WATCHES_WRITES: AtomicBool = AtomicBool::new(false);

/// When the first signal came that leaves no time.
static STOPPED_AT: OnceLock<Instant> = OnceLock::new();

/// Installs the handlers. It is the first call in `main`, since a signal kills a process that has
/// no handler yet.
///
/// # Errors
/// Returns an error if the system refuses.
pub fn install() -> io::Result<()> {
    on_signal(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU], |signal| {
        remember(signal, &RECEIVED);
        if signal != SIGUSR1 {
            begin_to_stop(signal);
        }
    })
}

/// Installs the handlers of a process that launches ranks: a signal is passed on to the processes
/// of [`relay_also_to`].
///
/// # Errors
/// Returns an error if the system refuses.
pub fn install_relay() -> io::Result<()> {
    on_signal(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1], relay)
}

/// Calls `handle` with each of `handled`, on a thread of its own. A file that grows beyond the
/// limit of the system becomes an error of the write.
fn on_signal(handled: &[i32], handle: fn(i32)) -> io::Result<()> {
    // A handler, and not a signal that is ignored: programs that this one starts would ignore it
    // too.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new(handled)?;
    thread::Builder::new().spawn(move || {
        signals.forever().for_each(handle);
    })?;
    Ok(())
}

/// Stops on a thread of its own, so that a second signal is heard, which ends the job at once.
fn begin_to_stop(signal: i32) {
    match STOPPED_AT.get() {
        None => {
            let _ = STOPPED_AT.set(Instant::now());
            if thread::Builder::new().spawn(move || stop(signal)).is_err() {
                stop(signal);
            }
        }
        Some(first) if first.elapsed() < TOGETHER => {}
        Some(_) => abort::end_by_second_signal(&reason(signal)),
    }
}

/// Stores a signal as the last one, but not SIGUSR1 after one that leaves no time.
fn remember(signal: i32, last: &AtomicI32) {
    if signal != SIGUSR1 || last.load(Ordering::SeqCst) == 0 {
        last.store(signal, Ordering::SeqCst);
    }
}

/// Saves what was measured, and ends the job unless it ends normally in time.
fn stop(signal: i32) {
    streams::limit_writes();
    let reason = reason(signal);
    abort::save_before_stop(&reason);
    thread::sleep(GRACE);
    abort::end_by_signal(&reason);
}

/// Returns why a signal ends the job.
fn reason(signal: i32) -> String {
    let name = name_to_user(signal);
    match abort::kept() {
        Some(kept) => format!("stopped by {name}; {kept} are kept"),
        None => format!("stopped by {name}"),
    }
}

/// Returns the name of a signal that asks this process to stop, and what it means unless every user
/// knows.
fn name_to_user(signal: i32) -> &'static str {
    match signal {
        SIGXCPU => "SIGXCPU, the limit of CPU time (ulimit -t)",
        other => name(other),
    }
}

/// Waits for a child to end, and leaves it to be reaped.
///
/// # Errors
/// Returns an error if the system refuses to wait.
pub fn wait_without_reaping(process: u32) -> io::Result<()> {
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

/// Passes signals on to the child `process` from now on, including one that came before. Each
/// signal reaches it once.
pub fn relay_also_to(process: u32) {
    let mut processes = relayed();
    processes.push(process);
    match RECEIVED.load(Ordering::SeqCst) {
        0 => {}
        signal => send(process as i32, passed_on(signal)),
    }
}

/// Passes no more signals on to `process`, so that it can be reaped.
pub fn no_longer_relay_to(process: u32) {
    relayed().retain(|other| *other != process);
}

fn relayed() -> MutexGuard<'static, Vec<u32>> {
    RELAY_TO.lock().unwrap_or_else(PoisonError::into_inner)
}

fn relay(signal: i32) {
    // Locked first, so that a process that is added meanwhile gets the signal once.
    let processes = relayed();
    remember(signal, &RECEIVED);
    for process in processes.iter() {
        send(*process as i32, passed_on(signal));
    }
    if signal != SIGUSR1 && !WATCHES_WRITES.swap(true, Ordering::SeqCst) {
        // Without the thread a second signal is of no more use than the first.
        let _ = thread::Builder::new().spawn(move || end_if_a_write_waits(signal));
    }
}

/// Ends this process, which was asked to stop, if it waits for somebody to read what it prints.
fn end_if_a_write_waits(signal: i32) {
    let asked = Instant::now();
    loop {
        thread::sleep(TOGETHER);
        let waits = streams::longest_wait().map_or(Duration::ZERO, |write| write.time);
        if waits.min(asked.elapsed()) > READ_WITHIN {
            abort::job(Code::Stopped, &reason(signal));
        }
    }
}

/// Returns the signal that stands for `signal`. srun answers the first SIGINT with a report and
/// continues; SIGTERM ends it.
fn passed_on(signal: i32) -> i32 {
    if signal == SIGINT { SIGTERM } else { signal }
}

/// Makes the process that `command` starts end when this one does, however that happens. The kernel
/// ends it when the thread that starts it does, so that must be one that lasts.
pub fn end_with_this_process(command: &mut Command) {
    signal_with_this_process(command, libc::SIGKILL);
}

/// Does what [`end_with_this_process`] does for a launcher, which is asked to end: it has to end
/// what it started.
pub fn stop_with_this_process(command: &mut Command) {
    signal_with_this_process(command, SIGTERM);
}

fn signal_with_this_process(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: prctl takes numbers and touches no memory of ours.
        let answer = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid takes nothing and cannot fail.
        let is_orphan = unsafe { libc::getppid() } as u32 != parent;
        // The other process may have ended before the kernel was asked.
        match is_orphan {
            true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            false => Ok(()),
        }
    };
    // SAFETY: between fork and exec `ask` makes two system calls and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

/// Sends a signal to this process by its name. Names of signals that it does not handle are passed
/// over.
pub fn send_to_self(signal: &str) {
    let handled = [SIGHUP, SIGINT, SIGTERM, SIGUSR1];
    if let Some(number) = handled.into_iter().find(|number| name(*number) == signal) {
        send(std::process::id() as i32, number);
    }
}

/// Sends SIGTERM to a process that this one started.
pub fn terminate(process: u32) {
    send(process as i32, SIGTERM);
}

/// Sends SIGTERM to the process group of a child that started one.
pub fn terminate_group(leader: u32) {
    send(-(leader as i32), SIGTERM);
}

/// Kills a child, and its process group if it started one.
pub fn kill_with_group(child: u32) {
    kill_group(child);
    send(child as i32, libc::SIGKILL);
}

/// Kills the process group of a child that started one, with all that is left in it.
pub fn kill_group(leader: u32) {
    send(-(leader as i32), libc::SIGKILL);
}

fn send(process: i32, signal: i32) {
    // SAFETY: kill takes two ints and touches no memory of ours. The process is this one, or a
    // child that has not been waited for yet, so its number belongs to no other, and neither does
    // its group's.
    unsafe { libc::kill(process, signal) };
}

/// Returns the signal that asked to stop, if one has come.
pub fn received() -> Option<&'static str> {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(name_to_user(signal)),
    }
}

/// Returns the signal that asked to stop now; SIGUSR1 leaves time.
pub fn stops_now() -> Option<&'static str> {
    match RECEIVED.load(Ordering::SeqCst) {
        0 | SIGUSR1 => None,
        signal => Some(name_to_user(signal)),
    }
}

/// Returns the name of a signal, such as `SIGKILL`.
pub fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_does_not_replace_a_request_to_stop_now() {
        let last = AtomicI32::new(0);
        for (signal, expected) in [
            (SIGUSR1, SIGUSR1),
            (SIGTERM, SIGTERM),
            (SIGUSR1, SIGTERM),
            (SIGINT, SIGINT),
        ] {
            remember(signal, &last);
            assert_eq!(last.load(Ordering::SeqCst), expected);
        }
    }
}
