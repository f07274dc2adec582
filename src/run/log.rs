//! NCCL's own log: one file per process, never on stdout.
//!
//! NCCL opens its log before the run's folder is known to every rank, so the log waits in this
//! process's own folder for temporary files and is copied when the run ends.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::{
    env,
    output::whole_file,
    world::{placement, scratch},
};

/// Returns the name of this process's log.
fn name() -> String {
    format!("{}.{}.log", placement::host_name(), std::process::id())
}

/// Makes the folder where the log of this process waits, and returns the log's path; `None` if it
/// cannot be made, which [`scratch::check`] reports if NCCL is to run.
pub(super) fn file() -> Option<String> {
    let file = scratch::folder().ok()?.join(name());
    file.to_str().map(str::to_owned)
}

/// Returns where the log of this process waits, if this program chose the place.
pub(super) fn waiting_place() -> Option<PathBuf> {
    let file = scratch::made()?.join(name());
    let logged_to = env::var("NCCL_DEBUG_FILE")?;
    (file.to_str() == Some(&logged_to)).then_some(file)
}

/// Returns whether this program chose where NCCL's log goes.
pub(super) fn is_ours() -> bool {
    waiting_place().is_some()
}

/// Returns what this process's log says so far; empty if NCCL writes none, or writes elsewhere.
pub(super) fn text() -> String {
    waiting_place()
        .and_then(|file| fs::read_to_string(file).ok())
        .unwrap_or_default()
}

/// Copies this process's log, if there is one, to `nccl/` in the run's folder. It stays where it
/// waits until the process ends: NCCL may still write to it, and an end in good order copies all of
/// it.
pub(super) fn collect(folder: Option<&Path>) {
    let Some(waiting) = waiting_place().filter(|file| file.exists()) else {
        return;
    };
    let Some(folder) = folder else {
        scratch::keep();
        say!("pxnbench: NCCL's log is {}", waiting.display());
        return;
    };
    if let Err(error) = copy(&waiting, &folder.join("nccl")) {
        scratch::keep();
        say!(
            "pxnbench: NCCL's log could not be copied and remains in {}: {error}",
            waiting.display()
        );
    }
}

/// Copies a file, since folders can be on different file systems.
fn copy(file: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut from = File::open(file)?;
    whole_file::write_whole(&folder.join(name()), |to| io::copy(&mut from, to).map(drop))
}
