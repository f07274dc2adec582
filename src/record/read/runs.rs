//! Runs by their folders: what their `run.json` says, and which is named twice.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    input::{self, InputKind},
    record::RunMeta,
};

/// Reads the `run.json` at `path`; `None` if there is none or it cannot be read.
pub fn read_run(path: &Path) -> Option<RunMeta> {
    serde_json::from_slice(&input::read(path, InputKind::Json).ok()?).ok()
}

/// Reads the `run.json` at `path` as plain JSON, with the keys that its version wrote and no
/// defaults for the others; `None` if there is none or it cannot be read.
pub fn read_run_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&input::read(path, InputKind::Json).ok()?).ok()
}

/// Returns the first of `runs` that is the same as an earlier one: counted twice, its times would
/// look like more measurements than there are. A run is its folder or the `results.csv` in it.
pub fn named_twice(runs: &[PathBuf]) -> Option<&PathBuf> {
    let mut files = HashSet::new();
    runs.iter().find(|run| match fs::canonicalize(run) {
        Ok(folder) if folder.is_dir() => !files.insert(folder.join("results.csv")),
        Ok(file) => !files.insert(file),
        // It cannot be read: that is said where it is read.
        Err(_) => false,
    })
}
