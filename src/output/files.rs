//! The files of a run: opened before the first case, and complete after each.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{csv::Csv, json, nccl_tests_json};
use crate::{
    collective::traffic::Traffic,
    record::{Record, RunMeta, file},
};

/// Where the files go.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The run's folder; `None` where only single files were asked for.
    pub folder: Option<PathBuf>,
    /// The CSV.
    pub csv: Option<PathBuf>,
    /// The JSON with all records.
    pub json: Option<PathBuf>,
    /// The JSON with nccl-tests' keys.
    pub nccl_tests_json: Option<PathBuf>,
}

impl Paths {
    /// The paths that `--out`, `--csv` and `--json` ask for; without any of them the run's folder is `default`.
    pub fn new(out: Option<&Path>, csv: Option<&Path>, json: Option<&Path>, default: &Path) -> Paths {
        let alone = csv.is_some() || json.is_some();
        let folder = out.map(Path::to_owned).or((!alone).then(|| default.to_owned()));
        let inside = |name: &str| folder.as_ref().map(|folder| folder.join(name));
        Paths {
            csv: csv.map(Path::to_owned).or_else(|| inside("results.csv")),
            json: json.map(Path::to_owned).or_else(|| inside("results.json")),
            folder,
            nccl_tests_json: None,
        }
    }

    fn run_json(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("run.json"))
    }

    fn all(&self) -> impl Iterator<Item = PathBuf> {
        [self.csv.clone(), self.json.clone(), self.run_json(), self.nccl_tests_json.clone()].into_iter().flatten()
    }
}

/// The open files of a run.
pub struct Files {
    paths: Paths,
    csv: Option<Csv>,
    records: Vec<Record>,
}

impl Files {
    /// Makes the folders, moves what an earlier run left there out of the way (`results.csv.1`, …), and creates all
    /// files, so that a path that cannot be written is known before anything is measured.
    ///
    /// # Errors
    /// The path, and why it cannot be written.
    pub fn create(paths: Paths, run: &RunMeta) -> Result<Files, (PathBuf, io::Error)> {
        let all: Vec<PathBuf> = paths.all().collect();
        if let Some(twice) = all.iter().enumerate().find_map(|(at, path)| all[..at].contains(path).then_some(path)) {
            return Err((twice.clone(), io::Error::other("two of the results would go to this file")));
        }
        for path in paths.all() {
            let named = |error| (path.clone(), error);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(named)?;
            }
            keep_earlier(&path).map_err(named)?;
        }
        let csv =
            paths.csv.as_deref().map(|path| Csv::create(path).map_err(|error| (path.to_owned(), error))).transpose()?;
        let files = Files { paths, csv, records: Vec::new() };
        files.save(run, false)?;
        Ok(files)
    }

    /// Opens the files that an earlier run left at these paths, to go on with them; its records are kept. `traffic`
    /// is what an alltoallv of this run sends where. Without an earlier CSV it is [`Files::create`].
    ///
    /// # Errors
    /// As [`Files::create`].
    pub fn go_on(paths: Paths, run: &RunMeta, traffic: &'static Traffic) -> Result<Files, (PathBuf, io::Error)> {
        let Some(path) = paths.csv.clone().filter(|path| path.is_file()) else { return Files::create(paths, run) };
        let text = fs::read_to_string(&path).map_err(|error| (path.clone(), error))?;
        let whole = file::whole_lines(&text);
        if !file::is_ours(whole) {
            let why = "it is not a CSV of this program: name another file, or leave --resume out to keep it as FILE.1";
            return Err((path, io::Error::other(why)));
        }
        let (records, unread) = file::read_csv(whole, traffic);
        unread.iter().for_each(|line| say!("pxnbench: {}: {line}; it is measured again", path.display()));
        let csv = Csv::go_on(&path, whole).map_err(|error| (path, error))?;
        let files = Files { paths, csv: Some(csv), records };
        files.save(run, false)?;
        Ok(files)
    }

    /// Adds a record; it is on disk when this returns.
    ///
    /// # Errors
    /// As [`Files::create`].
    pub fn add(&mut self, run: &RunMeta, record: &Record) -> Result<(), (PathBuf, io::Error)> {
        self.records.push(record.clone());
        match (&mut self.csv, &self.paths.csv) {
            (Some(csv), Some(path)) => csv.append(run, record).map_err(|error| (path.clone(), error)),
            _ => Ok(()),
        }
    }

    /// Writes the JSON files as they stand now; what is no regular file, such as a pipe, takes one of them only, at the end.
    ///
    /// # Errors
    /// As [`Files::create`].
    pub fn save(&self, run: &RunMeta, is_end: bool) -> Result<(), (PathBuf, io::Error)> {
        if let Some(path) = self.paths.run_json() {
            replace(is_end, &path, &json::run(run)).map_err(|error| (path, error))?;
        }
        if let Some(path) = &self.paths.json {
            replace(is_end, path, &json::results(run, &self.records)).map_err(|error| (path.clone(), error))?;
        }
        if let Some(path) = &self.paths.nccl_tests_json {
            replace(is_end, path, &nccl_tests_json::text(run, &self.records)).map_err(|error| (path.clone(), error))?;
        }
        Ok(())
    }

    /// All records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Where a reader should look: the folder, else the single file.
    pub fn main_path(&self) -> Option<&Path> {
        let paths = [&self.paths.folder, &self.paths.csv, &self.paths.json, &self.paths.nccl_tests_json];
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
    let free = (1..).map(numbered).find(|path| !path.exists()).unwrap_or_default();
    say!("pxnbench: keeping the earlier {} as {}", path.display(), free.display());
    fs::rename(path, free)
}

/// Writes a whole file beside its place and moves it there: a reader never sees half of it. What is not a regular file
/// (`/dev/stdout`, a pipe) is written directly, once, at the end.
fn replace(is_end: bool, path: &Path, text: &str) -> io::Result<()> {
    if path.metadata().is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return if is_end { fs::write(path, text) } else { Ok(()) };
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    // Else a crash of the machine could leave the new name with nothing behind it.
    file.sync_all()?;
    fs::rename(beside, path)
}
