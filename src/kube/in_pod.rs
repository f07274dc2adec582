//! What a pod runs: the program, once the first pod can be found, and then its results as lines of the log.

use std::{
    ffi::OsString,
    io,
    net::ToSocketAddrs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::results_archive;
use crate::{
    exit::{Code, Failure},
    world::signal,
};

/// How long the first pod may take to get a name. A pod has one as soon as it is on a node, long before its image is there.
const PATIENCE: Duration = Duration::from_secs(600);

/// Time between two questions to the name server, which itself remembers for a while that a name is unknown.
const PAUSE: Duration = Duration::from_secs(2);

/// What runs in a pod.
#[derive(Debug)]
pub struct InPod {
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// The folder whose files are left in the log.
    pub results: PathBuf,
    /// A host that must be known before the program starts.
    pub wait_for: Option<String>,
    /// How long the pod stays afterwards, if it has results.
    pub keep: Duration,
}

impl InPod {
    /// Runs the program to its end, and returns its code.
    ///
    /// # Errors
    ///
    /// Returns an error if the host remains unknown, or if the program cannot be started.
    pub fn run(&self) -> anyhow::Result<Code> {
        if let Some(host) = &self.wait_for {
            wait_for(host)?;
        }
        let mut child = Command::new(std::env::current_exe()?)
            .args(&self.arguments)
            .spawn()?;
        let status = signal::wait_and_relay(&mut child)?;
        if has_files(&self.results) {
            leave_results(&self.results)?;
            self.stay();
        }
        Ok(code(status))
    }

    /// Waits, so that files can still be copied, until somebody asks the pod to end.
    fn stay(&self) {
        let started = Instant::now();
        while started.elapsed() < self.keep && signal::received().is_none() {
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Writes the archive of `folder` to stdout, whatever its size.
///
/// # Errors
///
/// Returns an error if there are no results, or if they cannot be read or written.
pub fn print_results(folder: &Path) -> anyhow::Result<Code> {
    if !has_files(folder) {
        let what = format!("{} has no results yet", folder.display());
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    results_archive::print(&results_archive::pack(folder)?, &mut io::stdout().lock())?;
    Ok(Code::Fine)
}

fn leave_results(folder: &Path) -> io::Result<()> {
    let archive = results_archive::pack(folder)?;
    let mut stdout = io::stdout().lock();
    if archive.len() <= results_archive::MOST_BYTES {
        return results_archive::print(&archive, &mut stdout);
    }
    results_archive::print_too_large(archive.len(), &mut stdout)
}

fn has_files(folder: &Path) -> bool {
    folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
}

/// Returns the program's code; that of a launch that failed if it has none.
fn code(status: ExitStatus) -> Code {
    if let Some(signal) = status.signal() {
        say!("pxnbench: the ranks of this pod were ended by signal {signal}");
        return Code::Launch;
    }
    let code = status.code().and_then(Code::from_number);
    code.unwrap_or(Code::Launch)
}

/// Waits until `host` has an address.
fn wait_for(host: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let left = PATIENCE.saturating_sub(started.elapsed());
        if is_known(host, left) {
            return Ok(());
        }
        if let Some(name) = signal::received() {
            let what = format!("stopped by {name} before the run began");
            return Err(Failure::on_all_ranks(Code::Stopped, what));
        }
        if started.elapsed() >= PATIENCE {
            let what = format!(
                "{host} has had no address for {} s: the first pod is not on a node yet, or the cluster has no DNS for \
                 services. `pxnbench kube status` says why a pod waits",
                PATIENCE.as_secs()
            );
            return Err(Failure::on_all_ranks(Code::TimedOut, what));
        }
        thread::sleep(PAUSE);
    }
}

/// Returns whether `host` has an address, as far as the name server answers within `limit`.
fn is_known(host: &str, limit: Duration) -> bool {
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    thread::spawn(move || {
        let is_known = (host.as_str(), 0).to_socket_addrs().is_ok();
        // If this fails, nobody waits any more.
        let _ = sender.send(is_known);
    });
    receiver.recv_timeout(limit).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_the_program_is_that_of_the_pod() {
        let ended = |status| code(ExitStatus::from_raw(status));
        assert_eq!(ended(0), Code::Fine);
        assert_eq!(ended(7 << 8), Code::WrongData);
        assert_eq!(ended(101 << 8), Code::Launch);
        assert_eq!(ended(9), Code::Launch, "killed");
    }

    #[test]
    fn this_host_is_known() {
        assert!(is_known("localhost", Duration::from_secs(30)));
        assert!(wait_for("localhost").is_ok());
    }
}
