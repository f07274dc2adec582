//! Log files in folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Returns `path` if it is a file, or all files below it, ordered by name. A link to a folder below
/// it is not followed, because it may lead back.
///
/// # Errors
/// Returns an error if `path` or a folder below it cannot be read.
pub fn list_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if fs::metadata(path)?.is_dir() {
        add_folder(path, &mut files)?;
    } else {
        files.push(path.to_owned());
    }
    Ok(files)
}

fn add_folder(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            add_folder(&path, files)?;
        } else if fs::metadata(&path).is_ok_and(|target| target.is_file()) {
            files.push(path);
        }
    }
    Ok(())
}
