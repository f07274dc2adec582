//! The comparison of levels that `pxnbench compare` or an experiment left beside the runs: `comparison.json`.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// One variant in one case, as `comparison.json` has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Row {
    pub(super) collective: String,
    pub(super) size_bytes: u64,
    pub(super) r#type: String,
    pub(super) redop: String,
    pub(super) in_place: u8,
    pub(super) label: String,
    pub(super) reference: String,
    pub(super) blocks: u64,
    pub(super) time_us: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) ratio_low: Option<f64>,
    pub(super) ratio_high: Option<f64>,
    pub(super) verdict: String,
}

/// Returns the rows of the comparisons in `folders`; those without one are left out.
///
/// # Errors
///
/// Returns an error if a file is there and cannot be read.
pub(super) fn read(folders: &[PathBuf]) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for folder in folders {
        let path = folder.join("comparison.json");
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| Failure::of_file("read", &path, &error))?;
        let of_folder: Vec<Row> = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::of_file("read", &path, &error))?;
        rows.extend(of_folder);
    }
    Ok(rows)
}
