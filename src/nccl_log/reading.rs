//! Logs as a user names them: files and standard input, judged together and by run.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;

use crate::input::{self, InputKind};

use super::{
    decode::decoded,
    failure::Failure,
    fold::{Fold, undecorated, with_identity},
    line::unwrap_record,
    lines::for_each_line,
    proof::Proof,
    runs::FoundRuns,
};

/// Runs that are judged one by one.
const RUNS: usize = 64;
/// Files that a run names.
const FILES: usize = 16;

/// A log that can be read twice.
#[derive(Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Standard input, which is copied to an unnamed file if it is a pipe.
    StandardInput(Option<File>),
}

/// What logs say, together and by run.
#[derive(Debug, Serialize)]
pub struct Reading {
    /// All logs together.
    #[serde(flatten)]
    pub proof: Proof,
    /// The failure that they show.
    pub failure: Option<Failure>,
    /// Each run, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// Runs that are not in the list, because it is too long.
    #[serde(skip_serializing_if = "is_zero")]
    pub runs_left_out: u64,
}

/// One of several runs.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The parts of files that hold its lines.
    pub parts: Vec<RunPart>,
    /// Files that are not in the list, because it is too long.
    pub parts_left_out: u64,
    /// What its lines say.
    #[serde(flatten)]
    pub proof: Proof,
    /// The failure that they show.
    pub failure: Option<Failure>,
}

/// A part of a file. Lines of other runs may be between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunPart {
    /// The file's name; empty for standard input.
    pub file: String,
    /// The line by which the run begins.
    pub first_line: u64,
    /// The last line by which it is known.
    pub last_line: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Source {
    /// Returns the source's name; empty for standard input.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::StandardInput(_) => String::new(),
        }
    }

    /// Reads the source for the first time.
    fn read(&mut self, fold: &mut Fold) -> io::Result<()> {
        match self {
            Source::File(path) => fold.read(input::open(path, InputKind::Log)?),
            Source::StandardInput(copy) => {
                let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
                if input.metadata()?.is_file() {
                    fold.read(&input)?;
                    *copy = Some(input);
                    return Ok(());
                }
                let mut tee = Tee {
                    input,
                    copy: tempfile::tempfile().ok(),
                };
                fold.read(&mut tee)?;
                *copy = tee.copy;
                Ok(())
            }
        }
    }

    /// Opens the source again; `None` if it cannot be read twice.
    fn reopen(&self) -> Option<File> {
        match self {
            // What comes through a pipe is gone when it is read.
            Source::File(path) if path.is_file() => File::open(path).ok(),
            Source::File(_) => None,
            Source::StandardInput(copy) => {
                let mut copy = copy.as_ref()?.try_clone().ok()?;
                copy.rewind().ok()?;
                Some(copy)
            }
        }
    }
}

/// Input that is copied while it is read, as long as there is room for the copy.
struct Tee {
    input: File,
    copy: Option<File>,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if let Some(copy) = &mut self.copy
            && copy.write_all(&buffer[..read]).is_err()
        {
            self.copy = None;
        }
        Ok(read)
    }
}

/// A source that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The source's name; empty for standard input.
    pub name: String,
    /// Why not.
    pub error: io::Error,
}

/// Reads `sources`, and judges them together and, if they hold several runs, each run.
///
/// # Errors
/// Returns an error if a source cannot be read.
pub fn read(sources: &mut [Source]) -> Result<Reading, Unreadable> {
    let mut fold = Fold::with_runs();
    for source in &mut *sources {
        let name = source.name();
        fold.begin_file(&name);
        source
            .read(&mut fold)
            .map_err(|error| Unreadable { name, error })?;
    }
    let found = fold.take_runs().finish();
    let many = found.extents.len();
    let runs = if many > 1 {
        judge_runs(sources, &found)
    } else {
        Vec::new()
    };
    Ok(Reading {
        proof: fold.proof(),
        failure: fold.failure(),
        runs_left_out: if many > 1 {
            (many - runs.len()) as u64
        } else {
            0
        },
        runs,
    })
}

/// Reads `sources` again, each run into a fold of its own. What cannot be read again is left out.
fn judge_runs(sources: &[Source], found: &FoundRuns) -> Vec<Run> {
    let count = found.extents.len().min(RUNS);
    let mut router = Router {
        found,
        file: 0,
        folds: (0..count).map(|_| Fold::default()).collect(),
        run: 0,
        file_tag: Vec::new(),
    };
    for (file, source) in sources.iter().enumerate() {
        let Some(log) = source.reopen() else {
            return Vec::new();
        };
        router.begin_file(file);
        if router.read(log).is_err() {
            return Vec::new();
        }
    }
    let folds = router.folds.iter().enumerate();
    folds
        .map(|(run, fold)| Run {
            parts: parts(found, run),
            parts_left_out: found.extents[run].lines.len().saturating_sub(FILES) as u64,
            proof: fold.proof(),
            failure: fold.failure(),
        })
        .collect()
}

fn parts(found: &FoundRuns, run: usize) -> Vec<RunPart> {
    let lines = found.extents[run].lines.iter().take(FILES);
    lines
        .map(|(file, (first_line, last_line))| RunPart {
            file: found.files.get(*file).cloned().unwrap_or_default(),
            first_line: *first_line,
            last_line: *last_line,
        })
        .collect()
}

/// Passes each line to the fold of its run.
struct Router<'a> {
    found: &'a FoundRuns,
    file: usize,
    folds: Vec<Fold>,
    /// The run of the last line whose process is known. Lines without a process belong to it.
    run: usize,
    file_tag: Vec<u8>,
}

impl Router<'_> {
    fn begin_file(&mut self, file: usize) {
        self.file = file;
        let name: Arc<str> = Arc::from(self.found.files[file].as_str());
        for fold in &mut self.folds {
            fold.set_file(&name);
        }
        self.file_tag = self.folds[0].file_tag().to_vec();
        // What comes before the first process of the file belongs to the first run in it.
        let runs = self.found.extents.iter();
        let in_file = runs.map(|run| run.lines.get(&file));
        let first = in_file
            .enumerate()
            .filter_map(|(run, lines)| Some((lines?.0, run)))
            .min();
        if let Some((_, run)) = first {
            self.run = run;
        }
    }

    fn read(&mut self, log: File) -> io::Result<()> {
        let mut number = 0;
        for_each_line(decoded(log)?, |line, end| {
            number += 1;
            if let Some(run) = self.find_run(line, number) {
                self.run = run;
            }
            if let Some(fold) = self.folds.get_mut(self.run) {
                fold.add_numbered(number, line, end);
            }
        })
    }

    /// Returns the run of the process that logs the first message of the line with this number.
    fn find_run(&self, line: &[u8], number: u64) -> Option<usize> {
        let record = unwrap_record(line);
        let line = record.as_deref().unwrap_or(line);
        let line = line.split(|c| *c == b'\n').next()?;
        undecorated(line, |line, header, _| {
            let head = with_identity(&line[..header?.start], &self.file_tag);
            let life = self.found.lives.find(head, (self.file, number))?;
            self.found.run_of.get(life).copied()
        })
    }
}

/// Returns the sources that `path` stands for: standard input, a file, or the files below a folder.
///
/// # Errors
/// Returns an error if `path` or a folder below it cannot be read.
pub fn sources(path: &Path) -> io::Result<Vec<Source>> {
    if path == Path::new("-") {
        return Ok(vec![Source::StandardInput(None)]);
    }
    let files = super::list_files(path)?;
    Ok(files.into_iter().map(Source::File).collect())
}
