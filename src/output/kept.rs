//! Earlier files, which are kept under another name: nothing measured is lost.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Renames an existing regular file to the first free `NAME.1`, `NAME.2`, ….
///
/// # Errors
/// Returns an error if it cannot be renamed.
pub fn keep_earlier(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata().is_ok_and(|file| file.is_file()) {
        return Ok(());
    }
    let free = free_name(path);
    note!(
        "pxnbench: keeping the earlier {} as {}",
        path.display(),
        free.display()
    );
    fs::rename(path, free)
}

/// Gives a regular file a second name, the first free `NAME.1`, `NAME.2`, …, under which it stays
/// when another one replaces it. Returns that name.
///
/// # Errors
/// Returns an error if it can be neither linked nor copied.
pub(super) fn keep_copy(path: &Path) -> io::Result<PathBuf> {
    let free = free_name(path);
    // Some file systems have no links.
    fs::hard_link(path, &free).or_else(|_| fs::copy(path, &free).map(drop))?;
    Ok(free)
}

fn free_name(path: &Path) -> PathBuf {
    let mut number = 1;
    let mut free = numbered(path, number);
    while free.symlink_metadata().is_ok() {
        number += 1;
        free = numbered(path, number);
    }
    free
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}
