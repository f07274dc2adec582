//! Reading below a root of the file system.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::native::nvml::Reading;

/// Returns the names in a folder, in natural order (mlx5_2 before mlx5_10); none if there is no
/// such folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by(|a, b| natural_key(a).cmp(&natural_key(b)));
    names
}

fn natural_key(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().unwrap_or_default();
    (stem, number, name)
}

/// Returns the text of a file without the space around it; empty if it cannot be read.
pub(super) fn text(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}

/// Reads a file below a root, or says why it cannot be read.
pub(super) fn reading(root: &Path, path: &str) -> Reading<String> {
    match fs::read(root.join(path)) {
        Ok(bytes) => Reading::of(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Reading::none(format!("/{path}: {error}")),
    }
}

/// Joins a path of the examined system, which may begin with `/`, to the root below which it is
/// read. On this system, one that does not is one of the working folder, as NCCL takes it.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    if root == Path::new("/") {
        return PathBuf::from(path);
    }
    root.join(path.trim_start_matches('/'))
}
