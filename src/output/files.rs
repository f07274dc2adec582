//! The files of a run: opened before the first case, and complete after each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    csv::Csv,
    earlier::EarlierRun,
    json, nccl_tests_json,
    target::{self, OutputError},
};
use crate::{
    collective::traffic::Traffic,
    record::{Record, RunMeta},
};

/// Where the files go.
#[derive(Clone, Debug, Default)]
pub struct OutputPaths {
    /// The run's folder; `None` where only single files were asked for.
    pub folder: Option<PathBuf>,
    /// The CSV.
    pub csv: Option<PathBuf>,
    /// The JSON with all records.
    pub json: Option<PathBuf>,
    /// The JSON with nccl-tests' keys.
    pub nccl_tests_json: Option<PathBuf>,
}

impl OutputPaths {
    /// The paths that `--out`, `--csv` and `--json` ask for; without any of them the run's folder is `default`.
    pub fn new(
        out: Option<&Path>,
        csv: Option<&Path>,
        json: Option<&Path>,
        default: &Path,
    ) -> OutputPaths {
        let alone = csv.is_some() || json.is_some();
        let folder = out
            .map(Path::to_owned)
            .or((!alone).then(|| default.to_owned()));
        let inside = |name: &str| folder.as_ref().map(|folder| folder.join(name));
        OutputPaths {
            csv: csv.map(Path::to_owned).or_else(|| inside("results.csv")),
            json: json.map(Path::to_owned).or_else(|| inside("results.json")),
            folder,
            nccl_tests_json: None,
        }
    }

    /// The files that the paths stand for.
    fn resolved(self) -> OutputPaths {
        let file = |path: Option<PathBuf>| path.as_deref().map(target::resolved);
        OutputPaths {
            csv: file(self.csv),
            json: file(self.json),
            nccl_tests_json: file(self.nccl_tests_json),
            folder: self.folder,
        }
    }

    /// Makes the folders, and sees that each path can be a file and that no two are the same one. Nothing that is there is
    /// touched.
    ///
    /// # Errors
    /// The path that cannot be one, and why.
    fn prepare(&self) -> Result<(), OutputError> {
        let mut seen = Vec::new();
        for path in self.all() {
            let named = |error| OutputError::Io(path.clone(), error);
            if target::is_planted(&path) {
                return Err(OutputError::Other(path, "is a link of another user".into()));
            }
            let folder = target::folder_of(&path);
            fs::create_dir_all(folder).map_err(named)?;
            if path.is_dir() || path.file_name().is_none() {
                return Err(named(io::ErrorKind::IsADirectory.into()));
            }
            // One file can have many names: ./x and x, a/../x.
            let one = fs::canonicalize(folder)
                .map_err(named)?
                .join(path.file_name().unwrap_or_default());
            if seen.contains(&one) {
                return Err(named(io::Error::other(
                    "two of the results would go to this file",
                )));
            }
            seen.push(one);
        }
        Ok(())
    }

    fn run_json(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("run.json"))
    }

    fn all(&self) -> impl Iterator<Item = PathBuf> {
        [
            self.csv.clone(),
            self.json.clone(),
            self.run_json(),
            self.nccl_tests_json.clone(),
        ]
        .into_iter()
        .flatten()
    }
}

/// The open files of a run.
pub struct Files {
    paths: OutputPaths,
    csv: Option<Csv>,
    records: Vec<Record>,
}

impl Files {
    /// Makes the folders, moves what an earlier run left there out of the way (`results.csv.1`, …), and creates all
    /// files, so that a path that cannot be written is known before anything is measured.
    ///
    /// # Errors
    /// The path, and why it cannot be written.
    pub fn create(paths: OutputPaths, run: &RunMeta) -> Result<Files, OutputError> {
        let paths = paths.resolved();
        paths.prepare()?;
        paths.all().try_for_each(|path| {
            keep_earlier(&path).map_err(|error| OutputError::Io(path, error))
        })?;
        let csv = paths
            .csv
            .as_deref()
            .map(|path| Csv::create(path).map_err(|error| OutputError::Io(path.to_owned(), error)))
            .transpose()?;
        let files = Files {
            paths,
            csv,
            records: Vec::new(),
        };
        files.save(run, false)?;
        Ok(files)
    }

    /// Opens the files that an earlier run left at these paths, to go on with them; its records are kept, and `run` takes
    /// over its name. `traffic` is what an alltoallv of this run sends where. Without an earlier CSV it is
    /// [`Files::create`].
    ///
    /// # Errors
    /// As [`Files::create`], and where the earlier run measured something else.
    pub fn go_on(
        paths: OutputPaths,
        run: &mut RunMeta,
        traffic: &'static Traffic,
    ) -> Result<Files, OutputError> {
        let paths = paths.resolved();
        let Some(path) = paths
            .csv
            .clone()
            .filter(|path| path.is_file() && !target::is_stream(path))
        else {
            return Files::create(paths, run);
        };
        paths.prepare()?;
        let EarlierRun {
            csv,
            records,
            run_id,
        } = EarlierRun::open(&path, paths.run_json().as_deref(), run, traffic)?;
        if let Some(name) = run_id {
            say!(
                "pxnbench: going on with {}: {} rows are there",
                path.display(),
                records.len()
            );
            run.run_id = name;
        }
        let files = Files {
            paths,
            csv: Some(csv),
            records,
        };
        files.save(run, false)?;
        Ok(files)
    }

    /// Adds a record; it is on disk when this returns.
    ///
    /// # Errors
    /// As [`Files::create`].
    pub fn add(&mut self, run: &RunMeta, record: &Record) -> Result<(), OutputError> {
        self.records.push(record.clone());
        match (&mut self.csv, &self.paths.csv) {
            (Some(csv), Some(path)) => csv
                .append(run, record)
                .map_err(|error| OutputError::Io(path.clone(), error)),
            _ => Ok(()),
        }
    }

    /// Writes the JSON files as they stand now; what is no regular file, such as a pipe, takes one of them only, at the end.
    ///
    /// # Errors
    /// As [`Files::create`].
    pub fn save(&self, run: &RunMeta, is_end: bool) -> Result<(), OutputError> {
        if let Some(path) = &self.paths.json {
            target::replace(is_end, path, &json::results(run, &self.records))
                .map_err(|error| OutputError::Io(path.clone(), error))?;
        }
        if let Some(path) = &self.paths.nccl_tests_json {
            target::replace(is_end, path, &nccl_tests_json::text(run, &self.records))
                .map_err(|error| OutputError::Io(path.clone(), error))?;
        }
        // It says how the run ended, so it comes last: a run whose results cannot be written did not end well.
        if let Some(path) = self.paths.run_json() {
            target::replace(is_end, &path, &json::run(run))
                .map_err(|error| OutputError::Io(path, error))?;
        }
        Ok(())
    }

    /// All records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Where a reader should look: the folder, else the single file.
    pub fn main_path(&self) -> Option<&Path> {
        let paths = [
            &self.paths.folder,
            &self.paths.csv,
            &self.paths.json,
            &self.paths.nccl_tests_json,
        ];
        paths.into_iter().flatten().next().map(PathBuf::as_path)
    }
}

/// Renames an existing regular file to the first free `NAME.1`, `NAME.2`, …: nothing measured is lost.
fn keep_earlier(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata().is_ok_and(|file| file.is_file()) {
        return Ok(());
    }
    let numbered = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    let free = (1..)
        .map(numbered)
        .find(|path| !path.exists())
        .unwrap_or_default();
    say!(
        "pxnbench: keeping the earlier {} as {}",
        path.display(),
        free.display()
    );
    fs::rename(path, free)
}
