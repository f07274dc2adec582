//! What a pod runs: the program, and then its results as lines of the log.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::results_archive;
use crate::{
    exit::{Code, Failure},
    fault,
    world::{
        child_end::{ChildEnd, ChildLimits},
        signal,
    },
};

/// Time between two looks at whether somebody asks the pod to end.
const PAUSE: Duration = Duration::from_millis(200);

/// How long the program may take once it is asked to end. That is less than the minute that its pod
/// has, since the results still go to the log.
const PATIENCE: Duration = Duration::from_secs(15);

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
        let limits = ChildLimits {
            until: None,
            patience: PATIENCE,
        };
        let end = ChildEnd::of(&mut child, limits)?;
        // Of the ranks that mpirun starts in one pod, each sees the folder.
        if fault::speaks() && has_files(&self.results) {
            if let Err(error) = leave_results(&self.results) {
                // The code is that of the run all the same.
                let folder = self.results.display();
                say!("pxnbench: the results in {folder} cannot be left in the log: {error}");
            }
            self.stay();
        }
        Ok(code(&end))
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
fn code(end: &ChildEnd) -> Code {
    if end.was_killed {
        say!(
            "pxnbench: the ranks of this pod had not ended {} s after they were asked to, and \
             were killed",
            PATIENCE.as_secs()
        );
        return Code::Stopped;
    }
    if let Some(signal) = end.status.and_then(|status| status.signal()) {
        say!("pxnbench: the ranks of this pod were ended by signal {signal}");
        return Code::Launch;
    }
    let code = end.status.and_then(|status| status.code());
    code.and_then(Code::from_number).unwrap_or(Code::Launch)
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn the_code_of_the_program_is_that_of_the_pod() {
        let ended = |status, was_killed| {
            code(&ChildEnd {
                status: Some(ExitStatus::from_raw(status)),
                was_late: false,
                was_killed,
            })
        };
        assert_eq!(ended(0, false), Code::Fine);
        assert_eq!(ended(7 << 8, false), Code::WrongData);
        assert_eq!(ended(101 << 8, false), Code::Launch);
        assert_eq!(ended(9, false), Code::Launch, "killed by somebody else");
        assert_eq!(
            ended(9, true),
            Code::Stopped,
            "killed after a request to end"
        );
    }
}
