//! Reading below a root of the file system: what is not there is nothing, and no error.

use std::{fs, path::Path};

/// The names in a folder, sorted; mlx5_2 comes before mlx5_10.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    names
}

fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or_default(), name)
}

/// The text of a file without the space around it.
pub(super) fn text(file: &Path) -> String {
    fs::read_to_string(file)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
