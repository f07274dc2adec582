//! [`FileRequest`]: which files a caller asks for.

use std::path::{Path, PathBuf};

use crate::output::files::OutputPaths;

/// Which files a run writes.
#[derive(Clone, Debug, Default)]
pub struct FileRequest {
    /// The folder for all of them.
    pub out: Option<PathBuf>,
    /// The CSV.
    pub csv: Option<PathBuf>,
    /// The JSON.
    pub json: Option<PathBuf>,
    /// The JSON with nccl-tests' keys.
    pub nccl_tests_json: Option<PathBuf>,
    /// Whether the program was called by a name of nccl-tests', and so makes no folder of its own
    /// accord.
    pub is_drop_in: bool,
    /// Whether an earlier run at the same place is continued.
    pub resume: bool,
}

impl FileRequest {
    /// Returns whether an earlier run is to be continued whose place is not given.
    pub fn finds_earlier_run(&self) -> bool {
        self.resume && self.out.is_none() && self.csv.is_none()
    }

    /// Returns whether a file or folder is named.
    pub fn names_any(&self) -> bool {
        let files = [&self.out, &self.csv, &self.json, &self.nccl_tests_json];
        files.into_iter().any(Option::is_some)
    }

    /// Returns the paths of the run's files; their folder is `default` unless one or a single file
    /// is requested.
    pub fn paths(&self, default: &Path) -> OutputPaths {
        let is_asked = self.out.is_some() || self.csv.is_some() || self.json.is_some();
        let paths = if self.is_drop_in && !is_asked {
            OutputPaths::default()
        } else {
            OutputPaths::new(
                self.out.as_deref(),
                self.csv.as_deref(),
                self.json.as_deref(),
                default,
            )
        };
        OutputPaths {
            nccl_tests_json: self.nccl_tests_json.clone(),
            ..paths
        }
    }
}
