//! The files of a comparison.

use std::{fs, path::Path};

use super::{inputs::Inputs, rows, samples::JudgedTable, steps};
use crate::exit::{Code, Failure};

/// Writes the files of a comparison into `folder`, which is made if it is missing.
///
/// # Errors
///
/// Returns an error if one cannot be written, or if the folder has what a sweep measured.
pub(super) fn write(folder: &Path, inputs: &Inputs, judged: &[JudgedTable]) -> anyhow::Result<()> {
    refuse_measured_results(folder)?;
    fs::create_dir_all(folder).map_err(|error| Failure::of_file("made", folder, &error))?;
    // In this order: results.csv beside comparison.csv is always a copy.
    rows::write(folder, judged)?;
    let sweeps = inputs.csvs_of_sweeps();
    if sweeps.is_empty() {
        return Ok(());
    }
    steps::join(&sweeps, &folder.join("results.csv"))
}

/// Refuses a folder whose `results.csv` a sweep wrote: the rows of a comparison would replace what
/// was measured.
fn refuse_measured_results(folder: &Path) -> anyhow::Result<()> {
    let is_a_run = folder.join("run.json").exists();
    let is_a_comparison = folder.join(rows::CSV).exists() && !is_a_run;
    if !folder.join("results.csv").exists() || is_a_comparison {
        return Ok(());
    }
    let what = format!(
        "{} has measured results, which the comparison would replace. Name another folder with \
         --out",
        folder.display()
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}
