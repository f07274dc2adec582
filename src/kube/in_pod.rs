//! What a pod runs: the program, and then its results as lines of the log.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use super::results_archive;
use crate::{
    exit::{Code, Failure},
    fault,
    world::signal,
};

/// Time between two looks at whether somebody asks the pod to end.
const PAUSE: Duration = Duration::from_millis(200);

/// What runs in a pod.
#[derive(Debug)]
pub struct InPod {
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// The folder whose files are left in the log.
    pub results: PathBuf,
    /// How long the pod stays afterwards, if it has results.
    pub keep: Duration,
}

impl InPod {
    /// Runs the program to its end, and returns its code.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started.
    pub fn run(&self) -> anyhow::Result<Code> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(&self.arguments)
            .spawn()?;
        let status = signal::wait_and_relay(&mut child)?;
        // Of the ranks that mpirun starts in one pod, each sees the folder.
        if fault::speaks() && has_files(&self.results) {
            if let Err(error) = leave_results(&self.results) {
                // The code is that of the run all the same.
                let folder = self.results.display();
                say!("pxnbench: the results in {folder} cannot be left in the log: {error}");
            }
            self.stay();
        }
        Ok(code(status))
    }

    /// Waits, so that files can still be copied, until somebody asks the pod to end.
    fn stay(&self) {
        let started = Instant::now();
        while started.elapsed() < self.keep && signal::received().is_none() {
            thread::sleep(PAUSE);
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

/// Returns whether there is a folder at this path with anything in it.
pub(super) fn has_files(folder: &Path) -> bool {
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
}
