//! What an output format is. A new one is a file with a constant of this type and an entry in
//! `FORMATS` of [`output_files`](super::output_files).

use std::path::PathBuf;

use super::paths::OutputPaths;
use crate::record::{Record, RunMeta};

/// An output format.
pub(super) struct OutputFormat {
    /// Returns where a run writes it; `None` if the run does not.
    pub(super) path: fn(&OutputPaths) -> Option<PathBuf>,
    /// Whether a symbolic link at the path is followed. A user may have made one; at a name that
    /// only this program uses it is replaced.
    pub(super) follows_links: bool,
    /// How and when its file is written.
    pub(super) content: Content,
}

/// How and when the file of a format is written.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// Row by row, as soon as a case is done: the CSV.
    Rows,
    /// Row by row too, one per rank of each case.
    RankRows,
    /// Row by row too, second by second.
    SampleRows,
    /// As a whole, now and then and at the end: what there is to say of the run.
    OfRun(fn(&RunMeta) -> String),
    /// As a whole too, with all records.
    Whole(fn(&RunMeta, &[Record]) -> String),
}

impl Content {
    /// Returns the text of a file that is written as a whole.
    pub(super) fn text(self, run: &RunMeta, records: &[Record]) -> Option<String> {
        match self {
            Content::Rows | Content::RankRows | Content::SampleRows => None,
            Content::OfRun(text) => Some(text(run)),
            Content::Whole(text) => Some(text(run, records)),
        }
    }
}
