//! The files that a run writes: their formats, and where they are.

use std::path::{Path, PathBuf};

use super::{
    csv,
    format::{Content, OutputFormat},
    json, nccl_tests_json,
    paths::OutputPaths,
    ranks, samples, stragglers, target,
};

/// All output formats, in the order in which they are written. run.json says how the run ended, so
/// it comes last: a run whose results cannot be written did not end well.
const FORMATS: [&OutputFormat; 7] = [
    &csv::FORMAT,
    &ranks::FORMAT,
    &samples::FORMAT,
    &json::RESULTS,
    &nccl_tests_json::FORMAT,
    &stragglers::FORMAT,
    &json::RUN,
];

/// A file that a run writes.
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// Returns the files that a run writes.
pub(super) fn output_files(paths: &OutputPaths) -> Vec<OutputFile> {
    let mut files = Vec::new();
    for format in FORMATS {
        if let Some(path) = (format.path)(paths) {
            let path = if format.follows_links {
                target::resolved(&path)
            } else {
                path
            };
            files.push(OutputFile {
                path,
                content: format.content,
            });
        }
    }
    files
}

/// Returns the path of the CSV.
pub(super) fn csv_path(files: &[OutputFile]) -> Option<&Path> {
    let mut files = files.iter();
    let csv = files.find(|file| matches!(file.content, Content::Rows))?;
    Some(&csv.path)
}

/// Returns the path of the rows of single ranks.
pub(super) fn ranks_path(files: &[OutputFile]) -> Option<&Path> {
    let mut files = files.iter();
    let ranks = files.find(|file| matches!(file.content, Content::RankRows))?;
    Some(&ranks.path)
}

/// Returns the path of the samples.
pub(super) fn samples_path(files: &[OutputFile]) -> Option<&Path> {
    let mut files = files.iter();
    let samples = files.find(|file| matches!(file.content, Content::SampleRows))?;
    Some(&samples.path)
}
