//! Folders that only their user can enter, and the processes that they belong to.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::process_stat::ProcessStat;

/// Makes a folder within `within` that only this user can enter. Its name is `prefix` and random
/// letters.
///
/// # Errors
/// Returns an error if it cannot be made, or if its name is not UTF-8.
pub(super) fn make(within: &Path, prefix: &str) -> io::Result<PathBuf> {
    let made = tempfile::Builder::new()
        .prefix(prefix)
        .make_in(within, |path| DirBuilder::new().mode(0o700).create(path))?;
    let folder = made.into_temp_path().keep()?;
    if folder.to_str().is_none() {
        let _ = fs::remove_dir(&folder);
        return Err(io::Error::other("its name is not UTF-8"));
    }
    Ok(folder)
}

/// Returns whether `folder` is a folder, and no link to one, that only this user can have written
/// to.
pub(super) fn is_private(folder: &Path, user: u32) -> bool {
    folder
        .symlink_metadata()
        .is_ok_and(|it| it.is_dir() && it.uid() == user && it.mode() & 0o077 == 0)
}

/// A process: its number, when it started, and where that number means anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// In clock ticks since the machine started: another process may have the number later.
    pub(super) started: u64,
    /// The running system and the namespace of its process numbers: hosts and containers may share
    /// a file system.
    pub(super) space: String,
}

impl Owner {
    /// Returns this process; `None` if `/proc` does not tell.
    pub(super) fn this() -> Option<Owner> {
        Owner::of(std::process::id())
    }

    /// Returns the process with this number; `None` if there is none, or `/proc` does not tell.
    pub(super) fn of(pid: u32) -> Option<Owner> {
        Some(Owner {
            pid,
            started: ProcessStat::of(pid)?.started()?,
            space: this_space()?,
        })
    }

    /// Returns it as one line, which [`Owner::parse`] reads.
    pub(super) fn text(&self) -> String {
        format!("{} {} {}\n", self.pid, self.started, self.space)
    }

    /// Parses what [`Owner::text`] returned.
    pub(super) fn parse(text: &str) -> Option<Owner> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        Some(Owner {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            space: words.next()?.to_owned(),
        })
    }

    /// Returns whether the process is known to be dead; of one on another host nothing is known.
    pub(super) fn is_dead(&self) -> bool {
        let started = || ProcessStat::of(self.pid)?.started();
        self.is_here() && started() != Some(self.started)
    }

    /// Returns whether its number means the same process here.
    pub(super) fn is_here(&self) -> bool {
        this_space().as_ref() == Some(&self.space)
    }
}

fn this_space() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let numbers = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), numbers.display()))
}
