//! What a path for results stands for: a file, which is replaced as a whole, or a stream, which is written to.
//!
//! `/dev/stdout` and its kin lead to whatever the shell opened. Were that file replaced or cut, the table in it would be
//! lost; so they stand for the file that is open, never for its name.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::streams::{self, Destination};

/// Why results cannot go to a file.
#[derive(Debug)]
pub enum OutputError {
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
    /// It is of another run: the rest of a sentence that begins with the path.
    Other(PathBuf, String),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::Io(path, error) => {
                let path = path.display();
                write!(
                    f,
                    "{path} cannot be written: {error}. Name another file, or another folder with --out"
                )
            }
            OutputError::Other(path, why) => {
                let path = path.display();
                write!(
                    f,
                    "{path} {why}. Name another file, or another folder with --out"
                )
            }
        }
    }
}

/// Names of what is open already, as shells and people write them.
const OPEN: [(&str, u32); 6] = [
    ("/dev/stdout", 1),
    ("/dev/fd/1", 1),
    ("/proc/self/fd/1", 1),
    ("/dev/stderr", 2),
    ("/dev/fd/2", 2),
    ("/proc/self/fd/2", 2),
];

/// How long the reader of a named pipe may take to come.
const READER_COMES: Duration = Duration::from_secs(10);

/// Links followed at most, as the kernel does.
const MOST_LINKS: usize = 40;

/// `path` with links followed to the file that it stands for, but not through the names of what is open already.
pub fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = fs::read_link(&path) else { break };
        if is_open_already(&path) || is_planted(&path) {
            break;
        }
        // A link that is relative is so to its own folder.
        path = path
            .parent()
            .map_or_else(|| to.clone(), |folder| folder.join(&to));
    }
    path
}

/// Returns whether `path` is a link that another user made in a folder where all users may make files, such as /tmp. Linux
/// does not follow such a link either, unless `fs.protected_symlinks` is off.
pub fn is_planted(path: &Path) -> bool {
    let all = (
        path.symlink_metadata(),
        folder_of(path).metadata(),
        fs::metadata("/proc/self"),
    );
    let (Ok(link), Ok(folder), Ok(this_process)) = all else {
        return false;
    };
    let is_shared = folder.mode() & STICKY_AND_OPEN_TO_ALL == STICKY_AND_OPEN_TO_ALL;
    let is_trusted = link.uid() == this_process.uid() || link.uid() == folder.uid();
    link.is_symlink() && is_shared && !is_trusted
}

/// The bits of a folder such as /tmp.
const STICKY_AND_OPEN_TO_ALL: u32 = 0o1002;

/// Returns the folder that `path` is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns whether a file can be made at `path`, whose folder is not made for it.
pub fn is_accessible(path: &Path) -> bool {
    let path = resolved(path);
    is_stream(&path) || (!path.is_dir() && tempfile::tempfile_in(folder_of(&path)).is_ok())
}

fn number_of(path: &Path) -> Option<u32> {
    OPEN.iter()
        .find(|(name, _)| Path::new(name) == path)
        .map(|(_, number)| *number)
}

fn is_open_already(path: &Path) -> bool {
    number_of(path).is_some() || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Returns whether `path`, which is [`resolved`], is something that is written to and cannot be replaced: a pipe, a device, or what is already
/// open.
pub fn is_stream(path: &Path) -> bool {
    is_open_already(path)
        || path
            .metadata()
            .is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Opens a stream, or creates a file at `path`, which is [`resolved`]: a link that has come there since is not followed.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn create(path: &Path) -> io::Result<File> {
    match number_of(path) {
        Some(1) => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        Some(_) => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        None if is_pipe(path) => open_pipe(path, READER_COMES),
        None if is_stream(path) => File::options().write(true).open(path),
        None => File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path),
    }
}

/// Returns whether `path` is a named pipe.
pub fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.file_type().is_fifo())
}

/// Opens the named pipe at `path` for writing, as soon as somebody reads it.
///
/// # Errors
/// Returns an error if nobody does within `patience`, or if it cannot be opened.
pub fn open_pipe(path: &Path, patience: Duration) -> io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(20);
    let patience = streams::patience(patience);
    let _waiting = streams::writing_to(Destination::File(path.to_owned()));
    let began = Instant::now();
    loop {
        let mut without_waiting = File::options();
        without_waiting.write(true).custom_flags(libc::O_NONBLOCK);
        match without_waiting.open(path) {
            // There is a reader, so that this does not wait. Writes to it do, until it has read.
            Ok(_has_reader) => return File::options().write(true).open(path),
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
            Err(_) if began.elapsed() >= patience => {
                return Err(io::Error::other("nobody reads this pipe"));
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Waits until what was written to `file` is on disk.
///
/// # Errors
/// Returns an error if the disk is full or gone.
pub(super) fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        // A pipe or /dev/stdout cannot be synced, and need not be.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        result => result,
    }
}

/// Writes a whole file beside its place and moves it there: a reader never sees half of it. A stream is written to
/// directly, and only where `is_end` says that nothing comes after.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn replace(is_end: bool, path: &Path, text: &str) -> io::Result<()> {
    if is_stream(path) {
        return if is_end {
            create(path)?.write_all(text.as_bytes())
        } else {
            Ok(())
        };
    }
    write_whole(path, |file| file.write_all(text.as_bytes()))
}

/// Puts what `write` writes at `path`, replacing a file or a link that is there; a reader never sees half of it, and if
/// that fails nothing has changed.
///
/// It is written beside its place first, to a new file of a random name: what somebody else has put there under a name
/// that can be guessed is neither written to nor removed.
///
/// # Errors
/// Returns an error if `write` does, or if no file can be made there.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let part = tempfile::Builder::new()
        .prefix("pxnbench.")
        .suffix(".part")
        .make_in(folder_of(path), |part| File::create_new(part))?;
    // The second removes the file when it is dropped.
    let (mut file, part) = part.into_parts();
    write(&mut file)?;
    // Else a crash of the machine could leave the new name with nothing behind it.
    file.sync_all()?;
    Ok(part.persist(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into()
            })
            .collect()
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_leaves_what_was_there_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "before").expect("written");
        let full = write_whole(&path, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.expect_err("full").kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).expect("read"), "before");
        assert_eq!(names(folder.path()), ["a.json"]);
        write_whole(&path, |file| file.write_all(b"after")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "after");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_link_is_replaced_or_refused_and_never_written_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["mine", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "mine").expect("written");
        symlink(&file, &link).expect("linked");
        let error = create(&link).expect_err("a link");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        write_whole(&link, |to| to.write_all(b"new")).expect("written");
        assert!(!link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("read"), "mine");
    }

    #[test]
    fn a_link_of_another_user_in_a_shared_folder_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["mine", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "mine").expect("written");
        symlink(&file, &link).expect("linked");
        let share = |mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("shared");
        };
        share(0o1777);
        assert!(!is_planted(&link), "one's own");
        assert_eq!(resolved(&link), file);
        // Only root can make a link of another user.
        if lchown(&link, Some(65534), None).is_err() {
            return;
        }
        assert!(is_planted(&link));
        assert_eq!(resolved(&link), link);
        share(0o755);
        assert!(!is_planted(&link), "where only its owner can make links");
    }
}
