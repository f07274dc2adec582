//! The paths of the files that a run writes.

use std::path::{Path, PathBuf};

/// The folder and the single files that were requested.
#[derive(Clone, Debug, Default)]
pub struct OutputPaths {
    /// The run's folder; `None` if only single files were requested.
    pub folder: Option<PathBuf>,
    /// The CSV.
    pub csv: Option<PathBuf>,
    /// The JSON with all records.
    pub json: Option<PathBuf>,
    /// The JSON with nccl-tests' keys.
    pub nccl_tests_json: Option<PathBuf>,
    /// Whether the times of several ranks are measured, which have a file in the folder.
    pub times_several_ranks: bool,
    /// Whether stragglers are looked for, which have a file in the folder.
    pub looks_for_stragglers: bool,
    /// Whether the sweep is repeated for a time, whose samples have a file in the folder.
    pub has_samples: bool,
    /// Whether the GPUs' telemetry is taken, which has a file in the folder.
    pub takes_telemetry: bool,
}

impl OutputPaths {
    /// Returns the paths that `--out`, `--csv` and `--json` ask for; without any of them the run's
    /// folder is `default`.
    pub fn new(
        out: Option<&Path>,
        csv: Option<&Path>,
        json: Option<&Path>,
        default: &Path,
    ) -> OutputPaths {
        let has_single_file = csv.is_some() || json.is_some();
        let folder = match out {
            None if has_single_file => None,
            None => Some(default.to_owned()),
            Some(out) => Some(out.to_owned()),
        };
        OutputPaths {
            folder,
            csv: csv.map(Path::to_owned),
            json: json.map(Path::to_owned),
            nccl_tests_json: None,
            times_several_ranks: false,
            looks_for_stragglers: false,
            has_samples: false,
            takes_telemetry: false,
        }
    }

    /// Returns the path of the rows, if they are written to a file.
    pub fn results_csv(&self) -> Option<PathBuf> {
        self.csv.clone().or_else(|| self.in_folder("results.csv"))
    }

    /// Returns the path of the telemetry, if it is written to a file.
    pub(super) fn telemetry_csv(&self) -> Option<PathBuf> {
        let path = self.in_folder("telemetry.csv")?;
        self.takes_telemetry.then_some(path)
    }

    /// Returns the path of a file in the run's folder.
    pub(super) fn in_folder(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(name))
    }
}
