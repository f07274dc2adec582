//! The folder of this process for temporary files.
//!
//! NCCL opens its log by name and follows links. In a folder that everybody may write to, somebody
//! could plant a link under a name that can be guessed, and NCCL would overwrite what the link
//! leads to. So the log waits in a folder that is new, has a random name, and is open to this user
//! only.
//!
//! The process removes its folder when it ends. SIGKILL leaves it behind; then the next process of
//! the same user that makes such a folder on this host removes it.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    cause,
    private::{self, Owner},
    unfinished,
};
use crate::exit::{Code, Failure};

/// The prefix of the name of a folder.
const PREFIX: &str = "pxnbench.";

/// The least that the file system of a folder must have left, in bytes.
const LEAST_ROOM: u64 = 1 << 20;

/// A file system with less is full, in bytes: a line of NCCL's log may not fit.
const FULL: u64 = 16 << 10;

/// The file in a folder that says which process made it.
const OWNER: &str = "owner";

static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// Returns the folder; the first call makes it.
///
/// # Errors
/// Returns an error if it cannot be made, the same one for each call.
pub fn folder() -> anyhow::Result<&'static Path> {
    match FOLDER.get_or_init(|| make(&std::env::temp_dir())) {
        Ok(folder) => Ok(folder),
        Err(why) => Err(Failure::on_this_rank(Code::Usage, why.clone())),
    }
}

/// Returns the folder if it was made.
pub fn made() -> Option<&'static Path> {
    FOLDER.get()?.as_deref().ok()
}

/// Checks that the folder was made, if that was tried.
///
/// # Errors
/// Returns an error if it could not be made.
pub fn check() -> anyhow::Result<()> {
    match FOLDER.get() {
        Some(Err(_)) => folder().map(drop),
        _ => Ok(()),
    }
}

/// Leaves the folder where it is, also for later processes: the user was told of a file in it.
pub fn keep() {
    IS_KEPT.store(true, Ordering::SeqCst);
    if let Some(folder) = made() {
        // Without this file nobody removes the folder.
        let _ = fs::remove_file(folder.join(OWNER));
    }
}

/// Returns whether the file system of the folder, if there is one, is full: what NCCL logs may be
/// lost.
pub fn is_full() -> bool {
    let room = made().and_then(room);
    room.is_some_and(|bytes| bytes < FULL)
}

/// Returns how many bytes can be written to the file system of `folder`, if it says.
fn room(folder: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(folder).ok()?;
    // Those of /proc and the like have no blocks.
    (system.f_blocks > 0).then(|| system.f_bavail.saturating_mul(system.f_frsize))
}

/// Removes the folder, if there is one that need not be kept, the files that are not complete, and
/// the mark of this process.
pub fn remove() {
    cause::leave();
    unfinished::remove();
    if let Some(folder) = made()
        && !IS_KEPT.load(Ordering::SeqCst)
    {
        remove_folder(folder);
    }
}

/// Makes a folder within `within`, and removes those that dead processes left there.
fn make(within: &Path) -> Result<PathBuf, String> {
    let cannot = |why: &str| {
        format!(
            "{} cannot hold NCCL's log: {why}. Set TMPDIR to a folder that can be written to",
            within.display()
        )
    };
    if room(within).is_some_and(|bytes| bytes < LEAST_ROOM) {
        return Err(cannot("its file system has less than 1 MiB left"));
    }
    let folder = private::make(within, PREFIX).map_err(|error| cannot(&error.to_string()))?;
    // A folder without this file is never taken for an abandoned one.
    if let Some(owner) = Owner::this() {
        let _ = fs::write(folder.join(OWNER), owner.text());
    }
    if let Ok(mine) = folder.symlink_metadata() {
        remove_abandoned(within, &mine);
    }
    Ok(folder)
}

/// Removes the folders in `within` whose processes are dead, as far as they belong to the user of
/// `mine`.
fn remove_abandoned(within: &Path, mine: &Metadata) {
    let Ok(entries) = fs::read_dir(within) else {
        return;
    };
    for entry in entries.flatten() {
        let is_named_so = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let folder = entry.path();
        if is_named_so && private::is_private(&folder, mine.uid()) && is_abandoned(&folder) {
            remove_folder(&folder);
        }
    }
}

/// Returns whether the process that made `folder` is known to be dead.
fn is_abandoned(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join(OWNER)).unwrap_or_default();
    Owner::parse(&text).is_some_and(|owner| owner.is_dead())
}

/// Removes the logs in `folder` and then the folder itself; one that holds anything else stays.
fn remove_folder(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "log") {
            let _ = fs::remove_file(path);
        }
    }
    let _ = fs::remove_file(folder.join(OWNER));
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::DirBuilder,
        os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    };

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().expect("there").mode() & 0o777
    }

    #[test]
    fn a_folder_is_open_to_its_user_only_and_goes_as_a_whole() {
        let within = tempfile::tempdir().expect("a folder");
        let folder = make(within.path()).expect("made");
        assert_eq!(mode(&folder), 0o700);
        assert_ne!(folder, make(within.path()).expect("another one"));
        fs::write(folder.join("h.1.log"), "NCCL").expect("written");
        remove_folder(&folder);
        assert!(!folder.exists());
    }

    #[test]
    fn only_folders_of_dead_processes_of_this_user_are_removed() {
        let within = tempfile::tempdir().expect("a folder");
        let this = Owner::this().expect("this process");
        let dead = Owner {
            started: this.started + 1,
            ..this.clone()
        };
        let elsewhere = Owner {
            space: "another".into(),
            ..this.clone()
        };
        let place = |name: &str, owner: Option<&str>| {
            let folder = within.path().join(name);
            DirBuilder::new().mode(0o700).create(&folder).expect("made");
            fs::write(folder.join("h.1.log"), "NCCL").expect("written");
            if let Some(owner) = owner {
                fs::write(folder.join(OWNER), owner).expect("written");
            }
            folder
        };
        let abandoned = place("pxnbench.dead", Some(&dead.text()));
        let other = place("elsewhere", Some(&dead.text()));
        let open = place("pxnbench.open", Some(&dead.text()));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("opened");
        let link = within.path().join("pxnbench.link");
        symlink(&other, &link).expect("linked");
        let stay = [
            place("pxnbench.alive", Some(&this.text())),
            place("pxnbench.elsewhere", Some(&elsewhere.text())),
            place("pxnbench.kept", None),
            place("pxnbench.torn", Some("17 ")),
            other,
            open,
            link,
        ];
        make(within.path()).expect("made");
        assert!(!abandoned.exists());
        for folder in stay {
            assert!(folder.join("h.1.log").exists(), "{}", folder.display());
        }
    }

    #[test]
    fn where_none_can_be_made_the_remedy_is_said() {
        let within = tempfile::tempdir().expect("a folder");
        let no_folder = within.path().join("file");
        fs::write(&no_folder, "").expect("written");
        let why = make(&no_folder).expect_err("no folder");
        assert!(
            why.contains("file cannot hold NCCL's log: Not a directory")
                && why.ends_with(". Set TMPDIR to a folder that can be written to"),
            "{why}"
        );
    }
}
