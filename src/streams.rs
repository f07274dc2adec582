//! Standard output and standard error: writes that may wait for a reader, and which of them waits
//! now.
//!
//! A pipe that nobody reads holds 64 KiB; the next write waits until somebody does. What ends a job
//! must not wait so: it asks for writes with a time limit ([`limit_writes`]), and says what the
//! others wait for ([`longest_wait`]).

use std::{
    cell::Cell,
    fmt,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::FileType,
};

/// The destination of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The file or the named pipe at this path.
    File(PathBuf),
}

/// A write that has not ended.
#[derive(Clone, Debug)]
struct Pending {
    id: u64,
    to: Destination,
    since: Instant,
    /// Whether it waits for a reader. As long as that is unknown, it is the file system that does
    /// not answer.
    is_for_reader: bool,
}

/// A write that has not ended for some time. It is printed as the cause and the remedy.
#[derive(Clone, Debug)]
pub struct StuckWrite {
    to: Destination,
    is_for_reader: bool,
    /// How long it has not ended.
    pub time: Duration,
}

/// The wait for a write, which ends when this is dropped.
#[must_use]
pub struct PendingWrite {
    id: u64,
}

/// How long a write may take that ends a process.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Bytes that a pipe takes without waiting if `poll` says that it takes any.
const PIPE_PART: usize = 4096;

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the writes of this thread have a time limit.
    static HAS_LIMIT: Cell<bool> = const { Cell::new(false) };
}

fn pending() -> MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that this process writes to `to` until the answer is dropped.
pub fn writing_to(to: Destination) -> PendingWrite {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    pending().push(Pending {
        id,
        to: to.clone(),
        since: Instant::now(),
        is_for_reader: false,
    });
    // Asked here, and not by who reports it: a file system that does not answer would hold that one
    // up too.
    if to.has_reader()
        && let Some(write) = pending().iter_mut().find(|write| write.id == id)
    {
        write.is_for_reader = true;
    }
    PendingWrite { id }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        pending().retain(|write| write.id != self.id);
    }
}

/// Returns the write that waits longest.
pub fn longest_wait() -> Option<StuckWrite> {
    let writes = pending();
    let first = writes.iter().min_by_key(|write| write.since)?;
    Some(StuckWrite {
        to: first.to.clone(),
        is_for_reader: first.is_for_reader,
        time: first.since.elapsed(),
    })
}

/// Leaves out of the time of all writes that this process did not run for `paused`.
pub fn leave_out(paused: Duration) {
    for write in pending().iter_mut() {
        write.since += paused;
    }
}

/// Limits the writes of this thread to standard output and standard error: one that waits for a
/// reader longer than a second is given up.
pub fn limit_writes() {
    HAS_LIMIT.set(true);
}

/// Returns how long this thread may wait for the reader of a pipe that has a name: `usual`, or less
/// if its writes are limited.
pub fn patience(usual: Duration) -> Duration {
    if HAS_LIMIT.get() {
        usual.min(LAST_WRITE)
    } else {
        usual
    }
}

/// Writes to standard error. If it is closed or full, the text is lost and the program goes on.
pub fn to_stderr(text: &str) {
    let stderr = io::stderr();
    let _ = if HAS_LIMIT.get() {
        write_within(stderr.as_fd(), text.as_bytes(), LAST_WRITE)
    } else {
        let _waiting = writing_to(Destination::Stderr);
        stderr.lock().write_all(text.as_bytes())
    };
}

/// Writes to standard error, if that takes no longer than `limit`.
///
/// # Errors
/// Returns an error if it takes longer, or if standard error cannot be written.
pub fn to_stderr_within(text: &str, limit: Duration) -> io::Result<()> {
    write_within(io::stderr().as_fd(), text.as_bytes(), limit)
}

/// Writes to standard output, all of it.
///
/// # Errors
/// Returns an error if standard output cannot be written.
pub fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let stdout = io::stdout();
    if HAS_LIMIT.get() {
        // Whoever waits in a write holds the lock of the stream, and what the stream holds back is
        // half a line.
        return write_within(stdout.as_fd(), bytes, LAST_WRITE);
    }
    let _waiting = writing_to(Destination::Stdout);
    let mut stdout = stdout.lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes `bytes` in parts, each once there is room for it.
fn write_within(to: BorrowedFd, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
    let until = Instant::now() + limit;
    while !bytes.is_empty() {
        if !has_room(to, until)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let part = &bytes[..bytes.len().min(PIPE_PART)];
        match rustix::io::write(to, part) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until a write would not block. Returns false if that is not so before `until`.
fn has_room(to: BorrowedFd, until: Instant) -> io::Result<bool> {
    let mut files = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut files, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Destination {
    /// Returns whether somebody has to read what is written there: not if it is a file, or the
    /// folder of some.
    fn has_reader(&self) -> bool {
        let found = match self {
            Destination::Stdout => rustix::fs::fstat(io::stdout()),
            Destination::Stderr => rustix::fs::fstat(io::stderr()),
            Destination::File(path) => rustix::fs::stat(path),
        };
        let is_on_disk = |mode| {
            let kind = FileType::from_raw_mode(mode);
            matches!(kind, FileType::RegularFile | FileType::Directory)
        };
        found.is_ok_and(|found| !is_on_disk(found.st_mode))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Stdout => f.write_str("standard output"),
            Destination::Stderr => f.write_str("standard error"),
            Destination::File(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for StuckWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (to, time) = (&self.to, self.time.as_secs_f64());
        if self.is_for_reader {
            write!(
                f,
                "{to} is not read: a write has not ended for {time:.1} s. Read it, or send it \
                 elsewhere"
            )
        } else {
            write!(
                f,
                "{to} cannot be written: its file system has not answered for {time:.1} s. Check \
                 its server or disk, or write to another one"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_write_with_a_limit_ends_although_nobody_reads() {
        let (mut reader, writer) = UnixStream::pair().expect("a pair");
        let text = vec![b'x'; 4 << 20];
        let limit = Duration::from_millis(50);
        let error = write_within(writer.as_fd(), &text, limit).expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("read");
        assert!(!read.is_empty() && read.len() < text.len());
    }

    #[test]
    fn the_longest_wait_is_the_first_write_that_has_not_ended() {
        let path = PathBuf::from("/nowhere/x.csv");
        let first = writing_to(Destination::File(path.clone()));
        let second = writing_to(Destination::File("/dev/null".into()));
        let write = longest_wait().expect("a write");
        assert_eq!(write.to, Destination::File(path));
        drop(first);
        let write = longest_wait().expect("a write").to_string();
        assert!(write.starts_with("/dev/null is not read: "), "{write}");
        std::thread::sleep(Duration::from_millis(20));
        let time = longest_wait().expect("a write").time;
        assert!(time >= Duration::from_millis(20));
        // The process did not run for so long.
        leave_out(Duration::from_secs(3600));
        assert_eq!(longest_wait().expect("a write").time, Duration::ZERO);
        drop(second);
    }

    #[test]
    fn a_folder_or_a_file_has_no_reader() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.csv");
        std::fs::write(&file, "").expect("written");
        for path in [folder.path(), &file] {
            let to = Destination::File(path.to_owned());
            let stuck = StuckWrite {
                is_for_reader: to.has_reader(),
                to,
                time: Duration::from_secs(45),
            };
            let expected = format!(
                "{} cannot be written: its file system has not answered for 45.0 s. Check its \
                 server",
                path.display()
            );
            assert!(stuck.to_string().starts_with(&expected), "{stuck}");
        }
    }
}
