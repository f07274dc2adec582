//! The terminal that stdout and stderr reach: directly, or through the launcher, which hands on
//! what its ranks write.
//!
//! Under mpirun stderr is a pipe. Its reader is a process above this one: if that is a launcher,
//! what it writes reaches its own stderr, which may be a terminal, a file, or a pipe to the next
//! launcher. Under srun the reader is a daemon, often of another node, and nothing can be
//! concluded.

use std::{
    fs::{self, File},
    io::{self, IsTerminal},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use console::Term;

use crate::env::Env;

/// A place that can show progress.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgressTarget {
    /// On stderr, which is a terminal.
    Stderr,
    /// On this terminal, which the launcher's stderr is.
    Launcher(PathBuf),
    /// As lines on stderr: it is a pipe, and who reads it is not known.
    Lines,
    /// Nowhere: stderr is a file, or the log of a batch job.
    Nowhere,
}

/// The file descriptors of stdout and stderr.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// How a launcher's name begins, as the kernel keeps it, in 15 characters: those of Open MPI, MPICH
/// and its kin, and this program's `launch`.
const LAUNCHERS: [&str; 9] = [
    "mpirun",
    "mpiexec",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "hydra_pmi_proxy",
    "hydra_bstrap_pr",
    "pxnbench",
];

/// Launchers of launchers that are followed at most.
const MOST_LAUNCHERS: usize = 4;

/// Processes above this one that are looked at, at most.
const MOST_PARENTS: usize = 16;

/// Returns where the progress of this process can be shown.
pub(super) fn progress_target(env: Env) -> ProgressTarget {
    if io::stderr().is_terminal() {
        return ProgressTarget::Stderr;
    }
    let proc = Path::new("/proc");
    let stderr = link(proc, "self", STDERR);
    if is_batch(env) || !stderr.is_some_and(|path| is_pipe(&path)) {
        return ProgressTarget::Nowhere;
    }
    match launcher(proc) {
        None => ProgressTarget::Lines,
        Some(pid) => match link(proc, &pid, STDERR) {
            Some(path) if is_terminal(&path) => ProgressTarget::Launcher(path),
            Some(path) if is_pipe(&path) => ProgressTarget::Lines,
            _ => ProgressTarget::Nowhere,
        },
    }
}

/// Returns the width of the terminal that stdout reaches; `None` if it reaches none, or if that is
/// not known. `COLUMNS` overrides it.
pub fn stdout_width(env: Env) -> Option<usize> {
    let proc = Path::new("/proc");
    let columns = match launcher(proc) {
        Some(_) if !stdout_reaches_launcher(proc) => return None,
        Some(pid) => {
            let path = link(proc, &pid, STDOUT).filter(|path| is_terminal(path))?;
            open(&path).ok()?.size_checked()?.1
        }
        // Open MPI gives its ranks a terminal of its own making, wherever its stdout goes.
        None if env("OMPI_COMM_WORLD_RANK").is_some() => return None,
        None if io::stdout().is_terminal() => Term::stdout().size_checked()?.1,
        None => return None,
    };
    let named = env("COLUMNS").and_then(|columns| columns.trim().parse().ok());
    let width = named.unwrap_or(usize::from(columns));
    (width > 0).then_some(width)
}

/// Returns whether a launcher hands on what this process writes on stdout. A file, or a pipe that
/// somebody else reads, such as tee, leads elsewhere.
fn stdout_reaches_launcher(proc: &Path) -> bool {
    if io::stdout().is_terminal() {
        return true;
    }
    let pipe = link(proc, "self", STDOUT).filter(|path| is_pipe(path));
    pipe.is_some_and(|pipe| reader_above(proc, "self", &pipe).is_some())
}

/// Opens a terminal without making it that of this process.
///
/// # Errors
/// Returns an error if it cannot be opened.
pub(super) fn open(path: &Path) -> io::Result<Term> {
    let open = || -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(path)
    };
    Ok(Term::read_write_pair(open()?, open()?))
}

/// Returns whether this is a batch job, whose output goes to a log even if a pipe leads there.
fn is_batch(env: Env) -> bool {
    env("ENVIRONMENT").is_some_and(|kind| kind == "BATCH")
        || env("PBS_ENVIRONMENT").is_some_and(|kind| kind == "PBS_BATCH")
        || (env("LSB_JOBID").is_some() && env("LSB_INTERACTIVE").is_none())
}

/// Returns the outermost launcher that hands on what this process writes on stderr.
fn launcher(proc: &Path) -> Option<String> {
    let mut found: Option<String> = None;
    for _ in 0..MOST_LAUNCHERS {
        let below = found.as_deref().unwrap_or("self");
        let Some(pipe) = link(proc, below, STDERR).filter(|path| is_pipe(path)) else {
            break;
        };
        match reader_above(proc, below, &pipe) {
            Some(pid) => found = Some(pid),
            None => break,
        }
    }
    found
}

/// Returns the launcher above the process `pid` that reads `pipe`.
fn reader_above(proc: &Path, pid: &str, pipe: &Path) -> Option<String> {
    let mut pid = pid.to_owned();
    for _ in 0..MOST_PARENTS {
        pid = parent(proc, &pid)?;
        let name = fs::read_to_string(proc.join(&pid).join("comm")).unwrap_or_default();
        let is_launcher = LAUNCHERS.iter().any(|known| name.starts_with(known));
        if is_launcher && reads(proc, &pid, pipe) {
            return Some(pid);
        }
    }
    None
}

fn parent(proc: &Path, pid: &str) -> Option<String> {
    let status = fs::read_to_string(proc.join(pid).join("status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("PPid:"))?;
    let parent = line.split_whitespace().nth(1)?;
    (parent != "0").then(|| parent.to_owned())
}

/// Returns whether the process has the reading end of `pipe`. Those that it started have the
/// writing end only.
fn reads(proc: &Path, pid: &str, pipe: &Path) -> bool {
    let folder = proc.join(pid);
    let entries = fs::read_dir(folder.join("fd")).into_iter().flatten();
    for entry in entries.flatten() {
        if fs::read_link(entry.path()).ok().as_deref() != Some(pipe) {
            continue;
        }
        let info = folder.join("fdinfo").join(entry.file_name());
        let info = fs::read_to_string(info).unwrap_or_default();
        let mut words = info.split_whitespace().skip_while(|word| *word != "flags:");
        // The last two bits of the flags, which are octal, are 0 for reading.
        if words
            .nth(1)
            .is_some_and(|flags| flags.ends_with(['0', '4']))
        {
            return true;
        }
    }
    false
}

fn link(proc: &Path, pid: &str, descriptor: u32) -> Option<PathBuf> {
    fs::read_link(proc.join(pid).join("fd").join(descriptor.to_string())).ok()
}

fn is_pipe(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.starts_with("pipe:") || text.starts_with("socket:")
}

fn is_terminal(path: &Path) -> bool {
    path.starts_with("/dev") && open(path).is_ok_and(|terminal| terminal.is_term())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A process of a copy of /proc.
    struct FakeProcess<'a> {
        pid: &'a str,
        parent: &'a str,
        name: &'a str,
        /// Its descriptors: number, what it leads to, and its flags.
        descriptors: &'a [(&'a str, &'a str, &'a str)],
    }

    fn fake_proc(processes: &[FakeProcess]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().expect("a folder");
        for process in processes {
            let folder = proc.path().join(process.pid);
            fs::create_dir_all(folder.join("fd")).expect("made");
            fs::create_dir_all(folder.join("fdinfo")).expect("made");
            fs::write(folder.join("comm"), format!("{}\n", process.name)).expect("written");
            let status = format!("Name:\tx\nPPid:\t{}\n", process.parent);
            fs::write(folder.join("status"), status).expect("written");
            for (number, to, flags) in process.descriptors {
                symlink(to, folder.join("fd").join(number)).expect("linked");
                let info = format!("pos:\t0\nflags:\t{flags}\n");
                fs::write(folder.join("fdinfo").join(number), info).expect("written");
            }
        }
        proc
    }

    #[test]
    fn the_launcher_is_the_one_that_reads_the_pipe() {
        let rank = FakeProcess {
            pid: "self",
            parent: "40",
            name: "pxnbench",
            descriptors: &[("2", "pipe:[7]", "0100001")],
        };
        let shell = FakeProcess {
            pid: "40",
            parent: "30",
            name: "bash",
            descriptors: &[("2", "pipe:[7]", "0100001")],
        };
        let mpirun = |reads: &'static str, stderr: &'static str| {
            let descriptors: &'static [_] =
                Box::leak(Box::new([("27", reads, "02004000"), ("2", stderr, "01")]));
            FakeProcess {
                pid: "30",
                parent: "20",
                name: "mpirun",
                descriptors,
            }
        };
        let launch = |name: &'static str| FakeProcess {
            pid: "20",
            parent: "1",
            name,
            descriptors: &[("5", "pipe:[8]", "00"), ("2", "/dev/pts/3", "02")],
        };
        for (reads, stderr, above, found) in [
            ("pipe:[7]", "/dev/pts/3", "bash", Some("30")),
            ("pipe:[7]", "pipe:[8]", "pxnbench", Some("20")),
            // A program that reads what mpirun writes, and need not show it.
            ("pipe:[7]", "pipe:[8]", "python3", Some("30")),
            // The rank's stderr leads elsewhere, for example to tee.
            ("pipe:[9]", "/dev/pts/3", "bash", None),
        ] {
            let proc = fake_proc(&[
                FakeProcess { ..rank },
                FakeProcess { ..shell },
                mpirun(reads, stderr),
                launch(above),
            ]);
            assert_eq!(
                launcher(proc.path()).as_deref(),
                found,
                "{reads} {stderr} {above}"
            );
        }
    }

    #[test]
    fn the_log_of_a_batch_job_is_no_place_for_progress() {
        let env = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert!(is_batch(&env("ENVIRONMENT", "BATCH")));
        assert!(is_batch(&env("PBS_ENVIRONMENT", "PBS_BATCH")));
        assert!(!is_batch(&env("PBS_ENVIRONMENT", "PBS_INTERACTIVE")));
        assert!(!is_batch(&env("SLURM_JOB_ID", "1")), "salloc has it too");
    }
}
