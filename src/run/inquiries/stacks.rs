//! What the threads of the ranks on this node do, written to a file for each rank.

use std::{
    io::{self, Write},
    path::Path,
    process::{self, Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{PTracer, set_ptracer};

use super::threads;
use crate::{
    output::whole_file::write_whole,
    record,
    units::counted,
    visible::visible,
    world::{
        abort,
        cause::{self, PeerProcess},
        child, inquiry,
        placement::host_name,
    },
};

/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How long debuggers may take. The rest is for the files.
const DEBUGGERS_TAKE: Duration = Duration::from_secs(4);

/// The most that is kept of what a debugger prints, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The most that is kept of its errors.
const MOST_ERRORS: u64 = 16 << 10;

/// Debuggers that run at once: each reads the symbols of all libraries.
const AT_ONCE: usize = 8;

/// The most files that a message names.
const NAMED_FILES: usize = 8;

/// How often the end of a debugger is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Arranges that what threads do is written to `folder` if the run is stuck.
pub(super) fn prepare(folder: &Path) {
    // Where a process may look into its children only, this one lets those of the same user look
    // into it. If the system refuses, the file has the refusal of the debugger.
    let _ = set_ptracer(PTracer::Any);
    let folder = folder.to_owned();
    inquiry::add(LIMIT, move |named| write_all(&folder, named));
}

/// Writes the files of all ranks of this node, and returns a clause that names them.
fn write_all(folder: &Path, named: Option<u32>) -> Option<String> {
    let until = Instant::now() + DEBUGGERS_TAKE;
    let own = PeerProcess {
        rank: abort::rank().unwrap_or(0),
        pid: process::id(),
    };
    let mut others = cause::peers_here();
    others.sort_by_key(|peer| (Some(peer.rank) != named, peer.rank));
    // The states first: they are quick, and a debugger changes them.
    let mut files = Vec::new();
    for peer in others.into_iter().chain([own]) {
        files.push(StacksFile::of(peer));
    }
    let written: Vec<&StacksFile> = files
        .iter()
        .filter(|file| file.write(folder, "").is_ok())
        .collect();
    debug_all(&written, folder, own.pid, until);
    clause(&written, folder)
}

/// Adds to each file what a debugger says of its process, other than process `own`.
fn debug_all(files: &[&StacksFile], folder: &Path, own: u32, until: Instant) {
    let next = Mutex::new(files.iter());
    let debug = || {
        loop {
            let file = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(file) = file else { return };
            let calls = if file.peer.pid == own {
                "The process that writes this is not stopped for a debugger.\n".to_owned()
            } else {
                user_stacks(file.peer.pid, until)
            };
            // What was written before stays if this cannot be.
            let _ = file.write(folder, &calls);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(files.len()) {
            // One that the system refuses leaves its work to the others.
            let _ = thread::Builder::new().spawn_scoped(scope, debug);
        }
    });
}

fn clause(written: &[&StacksFile], folder: &Path) -> Option<String> {
    let names: Vec<String> = written.iter().map(|file| file.name()).collect();
    let first = names.get(..NAMED_FILES).unwrap_or(&names).join(", ");
    let more = match names.len().saturating_sub(NAMED_FILES) {
        0 => String::new(),
        more => format!(" and {}", counted(more, "other file")),
    };
    let folder = folder.display();
    (!names.is_empty()).then(|| {
        format!(
            "What the threads on {} did is in {folder}: {first}{more}",
            host_name()
        )
    })
}

/// The file of a rank.
struct StacksFile {
    peer: PeerProcess,
    /// What the system says of its threads.
    states: String,
}

impl StacksFile {
    /// Returns the file of `peer` as its threads are now.
    fn of(peer: PeerProcess) -> StacksFile {
        let PeerProcess { rank, pid } = peer;
        let now = record::now().to_rfc3339();
        let head = format!("rank {rank} on {}, process {pid}, {now}\n\n", host_name());
        StacksFile {
            peer,
            states: head + &threads::described(pid),
        }
    }

    fn name(&self) -> String {
        format!("stacks-{}.txt", self.peer.rank)
    }

    /// Writes it with what a debugger says.
    fn write(&self, folder: &Path, calls: &str) -> io::Result<()> {
        let text = format!("{}\n{calls}", self.states);
        write_whole(&folder.join(self.name()), |file| {
            file.write_all(text.as_bytes())
        })
    }
}

/// Returns the calls of all threads of process `pid` that a debugger finds until `until`.
fn user_stacks(pid: u32, until: Instant) -> String {
    let pid = pid.to_string();
    let debuggers: [(&str, &[&str]); 2] = [
        ("eu-stack", &["-p", &pid]),
        (
            "gdb",
            &[
                "-batch",
                "-nx",
                "-p",
                &pid,
                "-ex",
                "thread apply all backtrace",
            ],
        ),
    ];
    for (debugger, words) in debuggers {
        match printed(debugger, words, until) {
            Ok(text) => return text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return format!("{debugger} cannot be started: {error}\n"),
        }
    }
    "Neither eu-stack nor gdb is in PATH, so the calls are unknown.\n".to_owned()
}

/// Returns what a debugger prints until `until`.
///
/// # Errors
/// Returns an error if it cannot be started.
fn printed(debugger: &str, words: &[&str], until: Instant) -> io::Result<String> {
    let mut running = Command::new(debugger)
        .args(words)
        // Symbols are not to be sought in the network.
        .env_remove("DEBUGINFOD_URLS")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child::read_all(running.stdout.take(), MOST_BYTES);
    let stderr = child::read_all(running.stderr.take(), MOST_ERRORS);
    let has_ended = ends(&mut running, until);
    let rest = until.saturating_duration_since(Instant::now()) + LOOK;
    let mut text = format!("{debugger} {}:\n", words.join(" "));
    for part in [stdout, stderr] {
        let bytes = part.recv_timeout(rest).unwrap_or_default();
        text += &visible(&String::from_utf8_lossy(&bytes));
    }
    if !has_ended {
        text += &format!("\n{debugger} was ended, because it took too long.\n");
    }
    Ok(text)
}

/// Waits for the end of a debugger, and kills it if it has not ended by `until`. Returns whether it
/// ended by itself.
fn ends(debugger: &mut Child, until: Instant) -> bool {
    while Instant::now() < until {
        match debugger.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) => thread::sleep(LOOK),
            Err(_) => break,
        }
    }
    // It may have ended by now; the process that it held goes on.
    let _ = child::end(debugger, Duration::ZERO);
    false
}
