//! The environment of this process: NCCL's settings in force, and the part that is recorded.

use std::{collections::BTreeMap, path::Path};

use super::tree::below;
use crate::{
    env,
    input::{self, InputKind},
    levels::conf::{self, NcclSettings},
};

/// Names that are recorded beside `NCCL_*`: they change what is measured, and hold no secret.
const RECORDED: [&str; 8] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "LD_LIBRARY_PATH",
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_ID",
    "UCX_TLS",
];

/// Returns NCCL's settings in force on this process, from the environment and from the files that
/// NCCL reads.
pub fn settings() -> NcclSettings {
    settings_with(&conf_files(Path::new("/")))
}

/// Returns what [`settings`] does, from files that are read already.
pub fn settings_with(files: &[(String, String)]) -> NcclSettings {
    let files = files
        .iter()
        .map(|(file, text)| (file.as_str(), text.as_str()));
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    NcclSettings::new(environment, files)
}

/// Reads the files under `root` that NCCL reads, in order of precedence; those that cannot be read
/// are left out. Returns names and texts.
pub fn conf_files(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for file in conf::files(&env::var) {
        let path = below(root, &file);
        // What comes through a pipe is for NCCL, and gone once it is read.
        if path.is_file()
            && let Ok(bytes) = input::read(&path, InputKind::Settings)
        {
            files.push((file, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    files
}

/// Returns the recorded part of the environment: `NCCL_*` and a short list, nothing else, so that
/// no secret is written; of a variable of NCCL whose name says that it is one, only the name.
pub fn environment() -> BTreeMap<String, String> {
    let mut recorded = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if name.starts_with("NCCL_") || RECORDED.contains(&name.as_str()) {
            let value = env::recorded(&name, value.to_string_lossy().into_owned());
            recorded.insert(name, value);
        }
    }
    recorded
}
