//! The files of a run: opened before the first case, and complete after each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    csv::{self, Csv},
    earlier::EarlierRun,
    format::{Content, OutputFormat},
    json, nccl_tests_json,
    ranks::{self, RankCsv},
    samples::{self, Sample, SampleCsv},
    stragglers,
    target::{self, OutputError},
};
use crate::{
    collective::traffic::Traffic,
    record::{RankTimes, Record, RunMeta},
    streams::{self, Destination},
    units::counted,
};

pub use super::paths::OutputPaths;

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
struct OutputFile {
    path: PathBuf,
    content: Content,
}

/// Returns the files that a run writes.
fn output_files(paths: &OutputPaths) -> Vec<OutputFile> {
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

/// The open files of a run.
pub struct Files {
    folder: Option<PathBuf>,
    files: Vec<OutputFile>,
    csv: Option<Csv>,
    ranks: Option<RankCsv>,
    samples: Option<SampleCsv>,
    records: Vec<Record>,
}

impl Files {
    /// Makes the folders, moves what an earlier run left there out of the way (`results.csv.1`, …),
    /// and creates all files, so that a path that cannot be written is known before anything is
    /// measured.
    ///
    /// # Errors
    /// Returns an error with the path if a file cannot be written.
    pub fn create(paths: OutputPaths, run: &RunMeta) -> Result<Files, OutputError> {
        let files = output_files(&paths);
        prepare(&files)?;
        for file in &files {
            keep_earlier(&file.path).map_err(|error| io_error(&file.path, error))?;
        }
        let csv = match csv_path(&files) {
            Some(path) => Some(Csv::create(path).map_err(|error| io_error(path, error))?),
            None => None,
        };
        let ranks = match ranks_path(&files) {
            Some(path) => Some(RankCsv::create(path).map_err(|error| io_error(path, error))?),
            None => None,
        };
        let samples = match samples_path(&files) {
            Some(path) => Some(SampleCsv::create(path).map_err(|error| io_error(path, error))?),
            None => None,
        };
        let files = Files {
            folder: paths.folder,
            files,
            csv,
            ranks,
            samples,
            records: Vec::new(),
        };
        files.save(run, false)?;
        Ok(files)
    }

    /// Opens the files that an earlier run left at these paths, to continue them; its records are
    /// kept, and `run` takes over its name. `traffic` is the traffic of an alltoallv of this run.
    /// Without an earlier CSV this is [`Files::create`].
    ///
    /// # Errors
    /// Returns an error as [`Files::create`] does, and if the earlier run measured something else.
    pub fn go_on(
        paths: OutputPaths,
        run: &mut RunMeta,
        traffic: &'static Traffic,
    ) -> Result<Files, OutputError> {
        let files = output_files(&paths);
        let earlier_csv = csv_path(&files)
            .filter(|path| path.is_file() && !target::is_stream(path))
            .map(Path::to_owned);
        let Some(csv_path) = earlier_csv else {
            return Files::create(paths, run);
        };
        prepare(&files)?;
        let run_json = (json::RUN.path)(&paths);
        let earlier = EarlierRun::open(&csv_path, run_json.as_deref(), run, traffic)?;
        let ranks = match ranks_path(&files) {
            Some(path) => Some(RankCsv::resume(path, &earlier.text)?),
            None => None,
        };
        if let Some(name) = earlier.run_id {
            note!(
                "pxnbench: continuing {}, which has {}",
                csv_path.display(),
                counted(earlier.records.len(), "row")
            );
            run.run_id = name;
        }
        let files = Files {
            folder: paths.folder,
            files,
            csv: Some(earlier.csv),
            ranks,
            // What repeats for a time is not resumed.
            samples: None,
            records: earlier.records,
        };
        files.save(run, false)?;
        Ok(files)
    }

    /// Sets how many ranks and cases there will be; 0 cases if there is no end. Returns what to say of files that do not keep
    /// all of them.
    pub fn expect(&mut self, ranks: u64, cases: u64) -> Option<String> {
        self.ranks.as_mut()?.expect(ranks, cases)
    }

    /// Adds a record, whose row in the CSV is on disk when this returns. Returns what to say of files that no longer keep
    /// everything.
    ///
    /// # Errors
    /// Returns an error as [`Files::create`] does.
    pub fn add(&mut self, run: &RunMeta, record: &Record) -> Result<Option<String>, OutputError> {
        let mut remark = None;
        let _writing = self
            .main_path()
            .map(|path| streams::writing_to(Destination::File(path.to_owned())));
        // Before the row of the case: a run that ends in between measures the case again when it is resumed.
        if let (Some(ranks), Some(path)) = (&mut self.ranks, ranks_path(&self.files)) {
            remark = ranks
                .append(run, record)
                .map_err(|error| io_error(path, error))?;
        }
        self.records.push(Record {
            rank_times: record.rank_times.as_ref().map(RankTimes::without_ranks),
            ..record.clone()
        });
        if let (Some(csv), Some(path)) = (&mut self.csv, csv_path(&self.files)) {
            csv.append(run, record)
                .map_err(|error| io_error(path, error))?;
        }
        Ok(remark)
    }

    /// Adds samples.
    ///
    /// # Errors
    /// Returns an error as [`Files::create`] does.
    pub fn add_samples(&mut self, run: &RunMeta, samples: &[Sample]) -> Result<(), OutputError> {
        if let (Some(csv), Some(path)) = (&mut self.samples, samples_path(&self.files)) {
            csv.append(run, samples)
                .map_err(|error| io_error(path, error))?;
        }
        Ok(())
    }

    /// Writes the files that are written as a whole. What is no regular file, such as a pipe, gets
    /// its content only at the end.
    ///
    /// # Errors
    /// Returns an error as [`Files::create`] does.
    pub fn save(&self, run: &RunMeta, is_end: bool) -> Result<(), OutputError> {
        if let (true, Some(ranks), Some(path)) = (is_end, &self.ranks, ranks_path(&self.files)) {
            ranks.sync().map_err(|error| io_error(path, error))?;
        }
        if let (true, Some(csv), Some(path)) = (is_end, &self.samples, samples_path(&self.files)) {
            csv.sync().map_err(|error| io_error(path, error))?;
        }
        for OutputFile { path, content } in &self.files {
            if let Content::Whole(render) = content {
                let text = render(run, &self.records);
                target::replace(is_end, path, &text).map_err(|error| io_error(path, error))?;
            }
        }
        Ok(())
    }

    /// Returns all records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns where a reader should look: the folder, or else the first file.
    pub fn main_path(&self) -> Option<&Path> {
        match &self.folder {
            Some(folder) => Some(folder),
            None => self.files.first().map(|file| file.path.as_path()),
        }
    }
}

fn csv_path(files: &[OutputFile]) -> Option<&Path> {
    let mut files = files.iter();
    let csv = files.find(|file| matches!(file.content, Content::Rows))?;
    Some(&csv.path)
}

fn ranks_path(files: &[OutputFile]) -> Option<&Path> {
    let mut files = files.iter();
    let ranks = files.find(|file| matches!(file.content, Content::RankRows))?;
    Some(&ranks.path)
}

fn samples_path(files: &[OutputFile]) -> Option<&Path> {
    let mut files = files.iter();
    let samples = files.find(|file| matches!(file.content, Content::SampleRows))?;
    Some(&samples.path)
}

fn io_error(path: &Path, error: io::Error) -> OutputError {
    OutputError::Io(path.to_owned(), error)
}

/// Makes the folders, and checks that each path can be a file and that no two are the same one.
/// Existing files are not touched.
///
/// # Errors
/// Returns an error with the path that cannot be a file, and why.
fn prepare(files: &[OutputFile]) -> Result<(), OutputError> {
    let mut seen = Vec::new();
    for OutputFile { path, .. } in files {
        if target::is_planted(path) {
            let why = "is a link of another user".into();
            return Err(OutputError::Other(path.clone(), why));
        }
        let file = prepare_file(path).map_err(|error| io_error(path, error))?;
        if seen.contains(&file) {
            let why = io::Error::other("two of the results would go to this file");
            return Err(io_error(path, why));
        }
        seen.push(file);
    }
    Ok(())
}

/// Makes the folder of a file, and returns the one path of the file, which can have many names: ./x
/// and x, a/../x.
fn prepare_file(path: &Path) -> io::Result<PathBuf> {
    let folder = target::folder_of(path);
    fs::create_dir_all(folder)?;
    match path.file_name() {
        Some(name) if !path.is_dir() => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Err(io::ErrorKind::IsADirectory.into()),
    }
}

/// Renames an existing regular file to the first free `NAME.1`, `NAME.2`, …: nothing measured is
/// lost.
pub(super) fn keep_earlier(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata().is_ok_and(|file| file.is_file()) {
        return Ok(());
    }
    let mut number = 1;
    let mut free = numbered(path, number);
    while free.exists() {
        number += 1;
        free = numbered(path, number);
    }
    note!(
        "pxnbench: keeping the earlier {} as {}",
        path.display(),
        free.display()
    );
    fs::rename(path, free)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}
