//! Standard output and standard error: writes that may wait for a reader, and which of them waits now.
//!
//! A pipe that nobody reads holds 64 KiB; the next write waits until somebody does. What ends a job must not wait so: it asks
//! for writes with a time limit ([`limit_writes`]), and says what the others wait for ([`longest_wait`]).

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

/// Where a write goes.
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
        to,
        since: Instant::now(),
    });
    PendingWrite { id }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        pending().retain(|write| write.id != self.id);
    }
}

/// Returns the write that waits longest, and since when.
pub fn longest_wait() -> Option<(Destination, Duration)> {
    let writes = pending();
    let first = writes.iter().min_by_key(|write| write.since)?;
    Some((first.to.clone(), first.since.elapsed()))
}

/// Limits the writes of this thread to standard output and standard error: one that waits for a reader longer than a second
/// is given up.
pub fn limit_writes() {
    HAS_LIMIT.set(true);
}

/// Returns how long this thread may wait for the reader of a pipe that has a name: `usual`, or less if its writes are limited.
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
        // Whoever waits in a write holds the lock of the stream, and what the stream holds back is half a line.
        return write_within(stdout.as_fd(), bytes, LAST_WRITE);
    }
    let _waiting = writing_to(Destination::Stdout);
    let mut stdout = stdout.lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes `bytes` in parts, each once there is room for it.
fn write_within(to: BorrowedFd, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
    let began = Instant::now();
    while !bytes.is_empty() {
        let left = limit.saturating_sub(began.elapsed());
        if !has_room(to, left)? {
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

/// Returns whether a write would not wait, or does not within `limit`.
fn has_room(to: BorrowedFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut files = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    match poll(&mut files, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        // It is asked again, with the time that is left.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

impl fmt::Display for Destination {
    /// Prints what is wrong with a destination to which a write waits: `standard output is not read`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, kind) = match self {
            Destination::Stdout => ("standard output".to_owned(), kind(io::stdout().as_fd())),
            Destination::Stderr => ("standard error".to_owned(), kind(io::stderr().as_fd())),
            Destination::File(path) => (
                path.display().to_string(),
                rustix::fs::stat(path)
                    .ok()
                    .map(|file| FileType::from_raw_mode(file.st_mode)),
            ),
        };
        match kind {
            Some(FileType::RegularFile) => {
                write!(
                    f,
                    "{name} cannot be written: its file system does not answer"
                )
            }
            _ => write!(f, "{name} is not read"),
        }
    }
}

/// Returns the kind of an open file.
fn kind(file: BorrowedFd) -> Option<FileType> {
    let found = rustix::fs::fstat(file).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
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
        let second = writing_to(Destination::Stdout);
        let (to, _) = longest_wait().expect("a write");
        assert_eq!(to, Destination::File(path));
        assert_eq!(to.to_string(), "/nowhere/x.csv is not read");
        drop(first);
        assert!(longest_wait().is_some_and(|(to, _)| to == Destination::Stdout));
        drop(second);
    }
}
