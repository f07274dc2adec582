//! What a path for results stands for: a file, which is replaced as a whole, or a stream, which is
//! written to.
//!
//! `/dev/stdout` and its kin lead to whatever the shell opened. Were that file replaced or cut, the
//! table in it would be lost; so they stand for the file that is open, never for its name.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::streams::{self, Destination};

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

/// `path` with links followed to the file that it stands for, but not through the names of what is
/// open already.
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

/// Returns whether `path` is a link that another user made in a folder where all users may make
/// files, such as /tmp. Linux does not follow such a link either, unless `fs.protected_symlinks` is
/// off.
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

/// Returns the one name of what is open already, if `path` is a name of it.
pub(super) fn name_of_open(path: &Path) -> Option<PathBuf> {
    match number_of(path) {
        Some(number) => Some(PathBuf::from(format!("/proc/self/fd/{number}"))),
        None => is_open_already(path).then(|| path.to_owned()),
    }
}

fn is_open_already(path: &Path) -> bool {
    number_of(path).is_some() || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Returns whether `path`, which is [`resolved`], is something that is written to and cannot be
/// replaced: a pipe, a device, or what is already open.
pub fn is_stream(path: &Path) -> bool {
    is_open_already(path)
        || path
            .metadata()
            .is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Opens a stream, or creates a file at `path`, which is [`resolved`]: a link that has come there
/// since is not followed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn a_link_is_refused_and_never_written_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["mine", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "mine").expect("written");
        symlink(&file, &link).expect("linked");
        let error = create(&link).expect_err("a link");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
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
