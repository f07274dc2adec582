//! NCCL's own log: one file a process, never on stdout.
//!
//! NCCL opens its log before the run's folder is known to every rank, so the log waits in the folder for temporary files
//! and is moved when the run ends.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::world::placement;

/// The name of this process's log.
fn name() -> String {
    format!("{}.{}.log", placement::host_name(), std::process::id())
}

/// Where the log of this process waits.
pub(super) fn waiting_place() -> PathBuf {
    std::env::temp_dir().join(format!("pxnbench-nccl.{}", name()))
}

/// Removes what an earlier process of the same number left there.
pub(super) fn clear() {
    if is_ours() {
        let _ = fs::remove_file(waiting_place());
    }
}

/// Did this program choose where NCCL's log goes?
pub(super) fn is_ours() -> bool {
    std::env::var_os("NCCL_DEBUG_FILE").is_some_and(|file| file == waiting_place().into_os_string())
}

/// What this process's log says so far; empty where NCCL writes none, or writes elsewhere.
pub(super) fn text() -> String {
    if is_ours() {
        fs::read_to_string(waiting_place()).unwrap_or_default()
    } else {
        String::new()
    }
}

/// Brings this process's log, if it waits, to `nccl/` in the run's folder. It goes on waiting where NCCL may still write it,
/// so that an end in good order brings all of it.
pub(super) fn collect(folder: Option<&Path>, nccl_is_done: bool) {
    let waiting = waiting_place();
    if !is_ours() || !waiting.exists() {
        return;
    }
    let Some(folder) = folder else {
        say!("pxnbench: NCCL's log is {}", waiting.display());
        return;
    };
    let target = folder.join("nccl");
    // Folders can be on different file systems, so it is a copy. Where it fails the log stays where it waits.
    let copied = fs::create_dir_all(&target).and_then(|()| fs::copy(&waiting, target.join(name())));
    match copied {
        Ok(_) if nccl_is_done => drop(fs::remove_file(&waiting)),
        Ok(_) => {}
        Err(error) => say!(
            "pxnbench: NCCL's log stays in {}: {error}",
            waiting.display()
        ),
    }
}
