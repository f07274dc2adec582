//! [`PathLock`]: one writer for each path.
//!
//! The lock is a file of its own beside the path, because a file of results is replaced by another
//! one when it is written, and a lock would stay with the one that is gone. The kernel releases it
//! when the process ends, in whatever way; on NFS it is seen by all hosts. What a killed process
//! leaves behind is an empty shell, which the next writer takes over, and perhaps a part of a file,
//! which it removes.

use std::{
    fmt,
    fs::{self, File, Metadata},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use chrono::{DateTime, FixedOffset};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{
    target,
    whole_file::{remove_stale_parts, replace, write_whole},
};
use crate::{record, world::placement};

/// The end of the name of a lock's file, which begins with a dot.
const SUFFIX: &str = ".pxnbench-lock";

/// How often a lock is tried whose file another process removes at the same time.
const ATTEMPTS: u32 = 100;

/// How long a command that writes a file at once waits for another one that does.
const PATIENCE: Duration = Duration::from_secs(5);

/// The right to write to a path, which ends when this is dropped.
#[derive(Debug)]
pub struct PathLock {
    path: PathBuf,
    file: File,
    lock_file: PathBuf,
}

/// Why a path is not locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process has the lock.
    Held(Holder),
    /// The file system has no locks, or the lock's file cannot be made.
    Unavailable(io::Error),
}

/// The process that has a lock; `None` if its file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder(Option<HoldingProcess>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HoldingProcess {
    pid: u32,
    host: String,
    since: DateTime<FixedOffset>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(HoldingProcess { pid, host, since }) => {
                write!(
                    f,
                    "another run, process {pid} on {host} since {}",
                    since.to_rfc3339()
                )
            }
            None => f.write_str("another run"),
        }
    }
}

impl Holder {
    /// Returns the text of a lock's file of this process.
    fn text_of_this_process() -> String {
        let since = record::now().to_rfc3339();
        format!(
            "{} {since} {}\n",
            std::process::id(),
            placement::host_name()
        )
    }

    /// Reads the text of a lock's file. While its process writes it, it is not complete.
    fn read(mut file: &File) -> Holder {
        let mut text = String::new();
        let _ = file.rewind();
        // A name of a host is shorter than 256 bytes.
        let _ = Read::take(file, 512).read_to_string(&mut text);
        Holder(Holder::parse(&text))
    }

    fn parse(text: &str) -> Option<HoldingProcess> {
        let mut words = text.strip_suffix('\n')?.splitn(3, ' ');
        Some(HoldingProcess {
            pid: words.next()?.parse().ok()?,
            since: DateTime::parse_from_rfc3339(words.next()?).ok()?,
            host: words.next()?.to_owned(),
        })
    }
}

impl PathLock {
    /// Locks `path`, whose folder exists. It need not exist itself.
    ///
    /// # Errors
    /// Returns an error if another process has the lock, or if there are no locks here.
    pub fn take(path: &Path) -> Result<PathLock, LockError> {
        let lock_file = lock_file_of(path);
        for _ in 0..ATTEMPTS {
            let file = open(&lock_file).map_err(LockError::Unavailable)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return Err(LockError::Held(Holder::read(&file))),
                Err(error) => return Err(LockError::Unavailable(error.into())),
            }
            // One who ends removes the file, perhaps after this opened it.
            if is_at(&file, &lock_file) {
                let path = path.to_owned();
                say_who_holds(&file);
                remove_stale_parts(&path);
                return Ok(PathLock {
                    path,
                    file,
                    lock_file,
                });
            }
        }
        Err(LockError::Held(Holder::default()))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the lock's file is where others look for it: not if somebody removed the
    /// folder.
    pub fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.lock_file)
    }
}

impl Drop for PathLock {
    fn drop(&mut self) {
        if self.is_in_place() {
            // While it is locked: nobody else can have it.
            let _ = fs::remove_file(&self.lock_file);
        }
    }
}

/// Returns the path of the file that is locked for `path`.
pub fn lock_file_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(SUFFIX);
    target::folder_of(path).join(name)
}

/// Does what [`write_whole`] does, but not while another process writes to `path`: for a file that
/// is written at once. Where there are no locks, it is written without.
///
/// # Errors
/// Returns an error if another process keeps the lock, or as [`write_whole`] does.
pub fn write_whole_alone(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let _lock = wait_for(path)?;
    write_whole(path, write)
}

/// Does what [`replace`] does at the end of a run, as [`write_whole_alone`].
///
/// # Errors
/// Returns an error if another process keeps the lock, or as [`replace`] does.
pub fn replace_alone(path: &Path, text: &str) -> io::Result<()> {
    if target::is_stream(path) {
        return replace(true, path, text);
    }
    write_whole_alone(path, |file| file.write_all(text.as_bytes()))
}

/// Locks `path` as soon as it is free; `None` where there are no locks.
fn wait_for(path: &Path) -> io::Result<Option<PathLock>> {
    const PAUSE: Duration = Duration::from_millis(20);
    let began = Instant::now();
    loop {
        match PathLock::take(path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Unavailable(_)) => return Ok(None),
            Err(LockError::Held(holder)) if began.elapsed() > PATIENCE => {
                return Err(io::Error::other(format!("it is written by {holder}")));
            }
            Err(LockError::Held(_)) => thread::sleep(PAUSE),
        }
    }
}

/// Opens or makes a lock's file. NFS wants it open for writing; one of another user may be readable
/// only.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // Neither a link is followed nor a pipe waited for, if somebody planted one.
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.clone().write(true).create(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => options.open(path)?,
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("the lock's file is no regular file"));
    }
    Ok(file)
}

/// Returns whether `file` is what is at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let both = (file.metadata(), fs::symlink_metadata(path));
    let (Ok(open), Ok(there)) = both else {
        return false;
    };
    identity(&open) == identity(&there)
}

/// Returns what tells a file from all others of this machine.
pub(super) fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Writes who has the lock into its file, for messages of others. Without that, they say less.
fn say_who_holds(mut file: &File) {
    // A second name would be that of somebody's file, linked here.
    let is_ours = file.metadata().is_ok_and(|file| file.nlink() == 1);
    if is_ours && file.set_len(0).is_ok() {
        let _ = file.write_all(Holder::text_of_this_process().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_has_one_writer_and_a_lock_file_only_meanwhile() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        let lock = PathLock::take(&path).expect("free");
        let Err(LockError::Held(holder)) = PathLock::take(&path) else {
            panic!("two writers");
        };
        let words = format!(
            "another run, process {} on {} since 2",
            std::process::id(),
            placement::host_name()
        );
        assert!(holder.to_string().starts_with(&words), "{holder}");
        assert!(lock.is_in_place());
        drop(lock);
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 0);
        drop(PathLock::take(&path).expect("free again"));
    }

    #[test]
    fn a_lock_survives_the_replacement_of_its_path_but_not_of_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("run");
        fs::create_dir(&inner).expect("made");
        let path = inner.join("x.csv");
        let lock = PathLock::take(&path).expect("free");
        write_whole(&path, |file| file.write_all(b"new")).expect("written");
        assert!(matches!(PathLock::take(&path), Err(LockError::Held(_))));
        fs::remove_dir_all(&inner).expect("removed");
        assert!(!lock.is_in_place());
        fs::create_dir(&inner).expect("made");
        let other = PathLock::take(&path).expect("free");
        drop(lock);
        assert!(other.is_in_place(), "the first one removes its own only");
    }

    #[test]
    fn what_is_left_behind_holds_nobody_up_and_a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        fs::write(lock_file_of(&path), "17 torn").expect("written");
        drop(PathLock::take(&path).expect("nobody has it"));
        let mine = folder.path().join("mine");
        fs::write(&mine, "mine").expect("written");
        symlink(&mine, lock_file_of(&path)).expect("linked");
        assert!(matches!(
            PathLock::take(&path),
            Err(LockError::Unavailable(_))
        ));
        fs::remove_file(lock_file_of(&path)).expect("removed");
        fs::hard_link(&mine, lock_file_of(&path)).expect("linked");
        drop(PathLock::take(&path).expect("locked"));
        assert_eq!(fs::read_to_string(&mine).expect("read"), "mine");
    }

    #[test]
    fn a_file_of_another_shape_says_nothing_of_its_holder() {
        for text in [
            "",
            "17",
            "17 2026-01-01T00:00:00+00:00",
            "x 2026-01-01T00:00:00+00:00 h\n",
        ] {
            assert_eq!(Holder::parse(text), None, "{text}");
        }
        let whole = Holder::parse("17 2026-01-01T00:00:00+00:00 node7\n").expect("parsed");
        assert_eq!(
            Holder(Some(whole)).to_string(),
            "another run, process 17 on node7 since 2026-01-01T00:00:00+00:00"
        );
    }
}
