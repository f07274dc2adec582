//! [`RunLocks`]: the locks of a run on the paths that it writes, and the paths that it refuses.

use std::{
    fs, io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use super::{
    error::OutputError,
    lock::{LockError, PathLock, identity, lock_file_of},
    target,
};

/// The locks of a run. They are taken together, before any file is touched.
#[derive(Debug, Default)]
pub(super) struct RunLocks {
    locks: Vec<PathLock>,
    /// What to say of paths that cannot be locked.
    pub(super) remark: Option<String>,
}

impl RunLocks {
    /// Makes the folders of `paths`, checks that each can be a file and that no two are the same
    /// one, and locks them. Existing files are not touched.
    ///
    /// # Errors
    /// Returns an error with the path that cannot be a file, and why, or that another run writes.
    pub(super) fn take(paths: &[&Path]) -> Result<RunLocks, OutputError> {
        let mut places = distinct_places(paths)?;
        places.retain(|place| !target::is_stream(place));
        // In one order: of two runs that want the same paths, one gets all of them.
        places.sort();
        let mut taken = RunLocks::default();
        for place in places {
            match PathLock::take(&place) {
                Ok(lock) => taken.locks.push(lock),
                Err(LockError::Held(holder)) => return Err(OutputError::Held(place, holder)),
                Err(LockError::Unavailable(error)) => {
                    let place = place.display();
                    let remark = format!(
                        "{place} cannot be locked: {error}. Another run that writes to it at the \
                         same time would not be noticed"
                    );
                    taken.remark.get_or_insert(remark);
                }
            }
        }
        Ok(taken)
    }

    /// Takes the locks again whose files somebody removed, perhaps with their folder. Returns what
    /// to say if another run was faster.
    pub(super) fn renew(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        self.locks.retain_mut(|lock| {
            if lock.is_in_place() {
                return true;
            }
            match PathLock::take(lock.path()) {
                Ok(new) => *lock = new,
                Err(LockError::Held(holder)) => {
                    let path = lock.path().display();
                    said.push(format!(
                        "{path} is now being written by {holder}, too: somebody removed the lock \
                         of this run"
                    ));
                    return false;
                }
                // Its folder is gone; the next case tries again.
                Err(LockError::Unavailable(_)) => {}
            }
            true
        });
        said
    }

    /// Lets others write to the paths.
    pub(super) fn release(&mut self) {
        self.locks.clear();
    }
}

/// Makes the folders, and returns the one path of each file.
fn distinct_places(paths: &[&Path]) -> Result<Vec<PathBuf>, OutputError> {
    let mut places = Vec::new();
    let mut seen = Vec::new();
    for path in paths {
        if target::is_planted(path) {
            let why = "is a link of another user".into();
            return Err(OutputError::Other(path.to_path_buf(), why));
        }
        let refuse = |error| OutputError::Io(path.to_path_buf(), error);
        let place = prepare(path).map_err(refuse)?;
        let lock_file = lock_file_of(&place);
        if seen.contains(&place) || seen.contains(&lock_file) {
            let why = "two of the results would go to this file";
            return Err(refuse(io::Error::other(why)));
        }
        if is_output_of_shell(&place) {
            let why = "stdout or stderr goes to this file too";
            return Err(refuse(io::Error::other(why)));
        }
        seen.extend([place.clone(), lock_file]);
        places.push(place);
    }
    Ok(places)
}

/// Makes the folder of a file, and returns the one path of the file, which can have many names: ./x
/// and x, a/../x.
fn prepare(path: &Path) -> io::Result<PathBuf> {
    if let Some(open) = target::name_of_open(path) {
        return Ok(open);
    }
    let folder = target::folder_of(path);
    fs::create_dir_all(folder)?;
    match path.file_name() {
        Some(name) if !path.is_dir() => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Err(io::ErrorKind::IsADirectory.into()),
    }
}

/// Returns whether the shell opened the regular file at `place` for the table or for messages.
fn is_output_of_shell(place: &Path) -> bool {
    let Ok(there) = fs::symlink_metadata(place) else {
        return false;
    };
    let is_there = |fd: io::Result<std::os::fd::OwnedFd>| {
        let open = fd.and_then(|fd| fs::File::from(fd).metadata());
        open.is_ok_and(|open| open.is_file() && identity(&open) == identity(&there))
    };
    is_there(io::stdout().as_fd().try_clone_to_owned())
        || is_there(io::stderr().as_fd().try_clone_to_owned())
}
