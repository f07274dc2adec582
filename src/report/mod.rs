//! `pxnbench report`: what runs measured as a page to look at, as pictures, as a summary, and for
//! Prometheus.
//!
//! Rows are added up as they are read, so that memory grows with the number of cases and not with
//! that of the rows. What is drawn and listed is limited, and the page says what was left out.

mod comparison;
mod content;
mod curve;
mod doctor;
mod drawing;
mod estimate;
mod figure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod heat_map;
mod line_conditions;
mod line_plot;
mod line_proof;
mod machine;
mod metrics;
mod page;
mod palette;
mod panel;
mod picture;
mod plot;
mod ranks;
mod rehearsal_section;
mod rehearsals;
mod replay_modes;
mod replay_parts;
mod replay_section;
mod replays;
mod report_row;
mod series;
mod side_file;
mod source;
mod stragglers;
mod table;
mod telemetry;
mod time_axis;
mod timeline;
mod timeline_drawing;
mod words;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use self::{content::Content, page::Page};
use crate::{
    exit::{Code, Failure},
    output::{
        lock::{replace_alone, write_whole_alone},
        stdout, target,
    },
    units::counted,
    world::deadline,
};

/// How long the files may hold up the report.
const LIMIT: Duration = Duration::from_secs(600);

/// How long a pipe may be without a reader.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the reader of a pipe may take.
const READER_LIMIT: Duration = Duration::from_secs(60);

/// What is to be reported, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Folders or CSV files.
    pub runs: Vec<PathBuf>,
    /// The page; `report.html` in the folder of the first run if no other output is requested.
    pub out: Option<PathBuf>,
    /// A folder for the plots.
    pub svg: Option<PathBuf>,
    /// Whether a summary is printed.
    pub prints_markdown: bool,
    /// A file for Prometheus.
    pub prometheus: Option<PathBuf>,
}

/// Reads the runs, and writes what is requested.
///
/// # Errors
///
/// Returns an error if there is nothing to report, or if a file cannot be read or written.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let _guard = deadline::limit("the files of the report", LIMIT);
    let content = Content::read(&request.runs)?;
    for note in &content.notes {
        say!("pxnbench: {note}");
    }
    let page = Page::new(&content)?;
    if let Some(path) = request.page_path() {
        let text = page.render("page.html")?;
        if request.out.is_some() {
            write(&path, &text)?;
        } else {
            write_at_default(&path, &text)?;
        }
        say!("pxnbench: the report is in {}", path.display());
    }
    if let Some(folder) = &request.svg {
        let count = write_pictures(folder, &page)?;
        say!(
            "pxnbench: {} in {}",
            counted(count, "plot"),
            folder.display()
        );
    }
    if let Some(path) = &request.prometheus {
        let text = metrics::render(&content)?;
        let place = target::resolved(path);
        if target::is_stream(&place) {
            return Err(no_file(path));
        }
        replace(&place, &text)?;
        say!("pxnbench: the metrics are in {}", path.display());
    }
    if request.prints_markdown {
        stdout::write(&page.render("summary.md")?).map_err(|error| stdout::failure(&error))?;
    }
    Ok(Code::Fine)
}

impl Request {
    fn page_path(&self) -> Option<PathBuf> {
        let asks_for_less = self.svg.is_some() || self.prints_markdown || self.prometheus.is_some();
        match &self.out {
            Some(path) => Some(path.clone()),
            None if asks_for_less => None,
            None => {
                let first = self.runs.first()?;
                let folder = if first.is_dir() {
                    first
                } else {
                    first.parent()?
                };
                Some(folder.join("report.html"))
            }
        }
    }
}

/// Writes each picture into `folder`, which is made if it is missing. Returns their number.
fn write_pictures(folder: &Path, page: &Page) -> anyhow::Result<u64> {
    fs::create_dir_all(folder).map_err(|error| Failure::of_file("made", folder, &error))?;
    let mut count = 0;
    for picture in page.pictures() {
        write_at_default(
            &folder.join(format!("{}.svg", picture.name)),
            &picture.standalone(),
        )?;
        count += 1;
    }
    Ok(count)
}

/// Writes a file under a name that the user did not type. Such names can be guessed, so a link
/// there, or anything else but a file, is refused.
fn write_at_default(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Ok(there) = path.symlink_metadata()
        && !there.is_file()
    {
        return Err(no_file(path));
    }
    replace(path, text.as_bytes())
}

fn no_file(path: &Path) -> anyhow::Error {
    Failure::of_file("replaced", path, &"it is not a regular file")
}

fn replace(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    write_whole_alone(path, |file| file.write_all(text))
        .map_err(|error| Failure::of_file("written", path, &error))
}

/// Writes a file as a whole, or to a stream such as /dev/stdout.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let place = target::resolved(path);
    let written = if target::is_pipe(&place) {
        let _guard = deadline::limit(format!("the reader of {}", path.display()), READER_LIMIT);
        target::open_pipe(&place, PATIENCE).and_then(|mut pipe| pipe.write_all(text.as_bytes()))
    } else {
        replace_alone(&place, text)
    };
    written.map_err(|error| Failure::of_file("written", path, &error))
}
