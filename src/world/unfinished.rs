//! Files that are not complete, under names of their own: a process that is ended removes them.

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The files of this process that are not complete.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is not complete until this is dropped.
pub struct UnfinishedFile {
    path: PathBuf,
}

impl UnfinishedFile {
    /// Notes the file at `path`, which nobody needs if this process ends.
    pub fn note(path: PathBuf) -> UnfinishedFile {
        unfinished().push(path.clone());
        UnfinishedFile { path }
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.path);
    }
}

/// Removes all of them. One that is complete meanwhile has another name.
pub(super) fn remove() {
    for path in unfinished().iter() {
        // The next writer removes what is left.
        let _ = fs::remove_file(path);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
