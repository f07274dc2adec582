//! The files of a run: opened before the first case, and complete after each.

use std::{
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use super::{
    csv,
    earlier::EarlierRun,
    error::OutputError,
    format::Content,
    json,
    kept::keep_earlier,
    kept_records::KeptRecords,
    output_files::{OutputFile, csv_path, output_files, ranks_path, samples_path},
    ranks::RankCsv,
    row_file::RowFile,
    run_locks::RunLocks,
    samples::{self, Sample},
    slow_disk::SlowDisk,
    target,
    whole_file::{Replacement, replace},
};
use crate::{
    collective::traffic::Traffic,
    record::{Record, RunMeta},
    streams::{self, Destination},
    units::counted,
};

pub use super::paths::OutputPaths;

/// The open files of a run.
pub struct Files {
    folder: Option<PathBuf>,
    files: Vec<OutputFile>,
    csv: Option<RowFile>,
    ranks: Option<RankCsv>,
    samples: Option<RowFile>,
    run_json: Option<PathBuf>,
    records: KeptRecords,
    is_continued: bool,
    locks: RunLocks,
    disk: SlowDisk,
}

impl Files {
    /// Makes the folders, moves what an earlier run left there out of the way (`results.csv.1`, …),
    /// and creates all files, so that a path that cannot be written is known before anything is
    /// measured.
    ///
    /// # Errors
    /// Returns an error with the path if a file cannot be written, or if another run writes it.
    pub fn create(paths: OutputPaths, run: &RunMeta) -> Result<Files, OutputError> {
        let files = output_files(&paths);
        let locks = lock_all(&files, &paths)?;
        Files::create_locked(paths, files, locks, run)
    }

    fn create_locked(
        paths: OutputPaths,
        files: Vec<OutputFile>,
        locks: RunLocks,
        run: &RunMeta,
    ) -> Result<Files, OutputError> {
        for file in &files {
            keep_earlier(&file.path).map_err(|error| io_error(&file.path, error))?;
        }
        let run_json = (json::RUN.path)(&paths);
        let files = Files {
            folder: paths.folder,
            csv: create(csv_path(&files), csv::create)?,
            ranks: create(ranks_path(&files), RankCsv::create)?,
            samples: create(samples_path(&files), samples::create)?,
            run_json,
            records: kept_records(Vec::new(), &files),
            files,
            is_continued: false,
            locks,
            disk: SlowDisk::default(),
        };
        files.save_at_start(run)?;
        Ok(files)
    }

    /// Opens the files that an earlier run left at these paths, to continue them; its records are
    /// kept, and `run` takes over its name and its start. `traffic` is the traffic of an alltoallv
    /// of this run. Without an earlier CSV this is [`Files::create`].
    ///
    /// # Errors
    /// Returns an error as [`Files::create`] does, and if the earlier run measured something else.
    pub fn go_on(
        paths: OutputPaths,
        run: &mut RunMeta,
        traffic: &'static Traffic,
    ) -> Result<Files, OutputError> {
        let files = output_files(&paths);
        let locks = lock_all(&files, &paths)?;
        let earlier_csv = csv_path(&files)
            .filter(|path| path.is_file() && !target::is_stream(path))
            .map(Path::to_owned);
        let Some(csv_path) = earlier_csv else {
            return Files::create_locked(paths, files, locks, run);
        };
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
        if let Some(times) = earlier.times {
            run.continued_at = times.continued_at;
            run.continued_at.push(run.started_at);
            run.started_at = times.started_at;
        }
        let files = Files {
            folder: paths.folder,
            csv: Some(earlier.csv),
            ranks,
            // What repeats for a time is not resumed.
            samples: None,
            run_json,
            records: kept_records(earlier.records, &files),
            files,
            is_continued: true,
            locks,
            disk: SlowDisk::default(),
        };
        files.save_at_start(run)?;
        Ok(files)
    }

    /// Sets how many ranks and cases there will be; 0 cases if there is no end. Returns what to say
    /// of files that do not keep all of them.
    pub fn expect(&mut self, ranks: u64, cases: u64) -> Option<String> {
        self.ranks.as_mut()?.expect(ranks, cases)
    }

    /// Adds a record. Its row in the CSV is on disk when this returns, unless that cannot be
    /// written: then the row waits. Returns what to say of the files.
    pub fn add(&mut self, run: &RunMeta, record: &Record) -> Vec<String> {
        let began = Instant::now();
        let mut said = self.renew_locks();
        // Before the row of the case: a run that ends in between measures the case again when it is
        // resumed.
        if let Some(ranks) = &mut self.ranks {
            said.extend(ranks.append(run, record));
        }
        said.extend(self.records.add(record));
        if let Some(csv) = &mut self.csv {
            said.extend(csv.append(&csv::row(run, record), 1));
        }
        if let Some(path) = self.main_path().map(Path::to_owned) {
            said.extend(self.disk.look(&path, began.elapsed()));
        }
        said
    }

    /// Adds samples. Returns what to say of the files.
    pub fn add_samples(&mut self, run: &RunMeta, samples: &[Sample]) -> Vec<String> {
        let rows = samples.len() as u64;
        match &mut self.samples {
            Some(csv) => csv.append(&samples::rows(run, samples), rows),
            None => Vec::new(),
        }
    }

    /// Writes the rows that could not be written so far. Returns what to say of the files.
    pub fn finish_rows(&mut self) -> Vec<String> {
        let mut said = self.renew_locks();
        for file in self.row_files() {
            said.extend(file.finish());
        }
        said
    }

    fn renew_locks(&mut self) -> Vec<String> {
        let _writing = self
            .main_path()
            .map(|path| streams::writing_to(Destination::File(path.to_owned())));
        self.locks.renew()
    }

    /// Returns a sentence for each file that lacks rows.
    pub fn missing_rows(&mut self) -> Vec<String> {
        let mut missing = self.records.missing();
        let rows = self.row_files().into_iter();
        missing.extend(rows.filter_map(|file| file.missing()));
        missing
    }

    fn row_files(&mut self) -> Vec<&mut RowFile> {
        let mut files: Vec<&mut RowFile> = Vec::new();
        files.extend(&mut self.csv);
        files.extend(self.ranks.as_mut().map(RankCsv::file));
        files.extend(&mut self.samples);
        files
    }

    /// Writes the files that are written as a whole, for the first time. What is no regular file,
    /// such as a pipe, gets its content only at the end.
    ///
    /// # Errors
    /// Returns an error as [`Files::create`] does.
    fn save_at_start(&self, run: &RunMeta) -> Result<(), OutputError> {
        for OutputFile { path, content } in &self.files {
            if let Some(text) = content.text(run, self.records.all()) {
                replace(false, path, &text).map_err(|error| io_error(path, error))?;
            }
        }
        Ok(())
    }

    /// Writes the files that are written as a whole, each with how the run ended. Unless all of
    /// them can be written, none is replaced.
    ///
    /// # Errors
    /// Returns an error with the path of the first that cannot be written.
    pub fn save(&self, run: &RunMeta) -> Result<(), OutputError> {
        let mut written = Vec::new();
        for OutputFile { path, content } in &self.files {
            if let Some(text) = content.text(run, self.records.all()) {
                let whole =
                    Replacement::write(path, text).map_err(|error| io_error(path, error))?;
                written.push((path, whole));
            }
        }
        for (path, whole) in written {
            whole.put().map_err(|error| io_error(path, error))?;
        }
        Ok(())
    }

    /// Does what [`Files::save`] does with each file that can be written, after that has failed.
    pub fn save_what_can_be(&self, run: &RunMeta) {
        for OutputFile { path, content } in &self.files {
            // A stream may have got a part of its content already.
            if !target::is_stream(path)
                && let Some(text) = content.text(run, self.records.all())
            {
                // What cannot be written is known.
                let _ = replace(true, path, &text);
            }
        }
    }

    /// Lets other runs write to these paths. The run is over.
    pub fn release(&mut self) {
        self.locks.release();
    }

    /// Returns what to say of paths that cannot be locked.
    pub fn lock_remark(&mut self) -> Option<String> {
        self.locks.remark.take()
    }

    /// Returns all records so far.
    pub fn records(&self) -> &[Record] {
        self.records.all()
    }

    /// Returns where the run is described, if it is.
    pub fn run_json(&self) -> Option<PathBuf> {
        self.run_json.clone()
    }

    /// Returns whether an earlier run is continued.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Returns where a reader should look: the folder, or else the first file.
    pub fn main_path(&self) -> Option<&Path> {
        match &self.folder {
            Some(folder) => Some(folder),
            None => self.files.first().map(|file| file.path.as_path()),
        }
    }
}

/// Creates the file at `path`, if there is to be one.
fn create<T>(
    path: Option<&Path>,
    create: fn(&Path) -> io::Result<T>,
) -> Result<Option<T>, OutputError> {
    match path {
        Some(path) => create(path)
            .map(Some)
            .map_err(|error| io_error(path, error)),
        None => Ok(None),
    }
}

/// Returns the records for those of `files` that need them, beside those of an earlier run.
fn kept_records(earlier: Vec<Record>, files: &[OutputFile]) -> KeptRecords {
    let readers = files
        .iter()
        .filter(|file| matches!(file.content, Content::Whole(_)));
    let paths = readers.map(|file| file.path.clone()).collect();
    KeptRecords::new(earlier, paths, csv_path(files).is_some())
}

fn io_error(path: &Path, error: io::Error) -> OutputError {
    OutputError::Io(path.to_owned(), error)
}

/// Makes the folders of all files, and locks these.
///
/// # Errors
/// Returns an error with the path that cannot be a file, and why, or that another run writes.
fn lock_all(files: &[OutputFile], paths: &OutputPaths) -> Result<RunLocks, OutputError> {
    let telemetry = paths.telemetry_csv();
    let mut all: Vec<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    all.extend(telemetry.as_deref());
    RunLocks::take(&all)
}
