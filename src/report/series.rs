//! Time and busbw by case and size: the rows of all runs, added up as they are read.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use super::{
    estimate::LogSums,
    line_conditions::common_and_special,
    line_proof::LineProof,
    panel::{Line, Panel, PanelCase, Point, sum_of_known},
    report_row::ReportRow,
    source::Source,
    table::distinct,
    words::{WordId, Words},
};
use crate::{
    collective::Collective,
    exit::{Code, Failure},
    record::{BackendKind, RowError, RowReader, Status},
};

/// Different remarks of rows that are kept.
const MOST_NOTES: usize = 50;

/// Everything that the rows say.
pub(super) struct Results {
    pub(super) panels: Vec<Panel>,
    pub(super) counts: Counts,
    /// Remarks of rows, with their number.
    pub(super) notes: Vec<(String, u64)>,
    /// What all lines have in common.
    pub(super) common: Vec<String>,
}

/// Rows by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) rows: u64,
    pub(super) ok: u64,
    pub(super) wrong: u64,
    pub(super) unchecked: u64,
    pub(super) computed: u64,
    pub(super) waived: u64,
    /// Wrong elements.
    pub(super) wrong_elements: u64,
}

/// Reads the rows of all sources. A last line that is cut short is added to `notes`.
///
/// # Errors
///
/// Returns an error if a row cannot be read, or if there is none, unless there is a training step
/// or `has_others` says that something else is reported.
pub(super) fn read(
    sources: &[Source],
    has_others: bool,
    notes: &mut Vec<String>,
) -> anyhow::Result<Results> {
    let mut collector = Collector::default();
    let (replays, sweeps): (Vec<&Source>, Vec<&Source>) =
        sources.iter().partition(|source| source.is_replay);
    for source in &sweeps {
        let added = collector.add_file(&source.csv, source.label.as_deref());
        notes.extend(added.map_err(|error| Failure::of_file("read", &source.csv, &error))?);
    }
    if collector.counts.rows == 0 && replays.is_empty() && !has_others {
        let what = match &sweeps[..] {
            [one] => format!("{} has no rows: nothing to report", one.csv.display()),
            _ => "no results.csv has a row: nothing to report".to_owned(),
        };
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(collector.results())
}

#[derive(Default)]
struct Collector {
    words: Words,
    places: HashMap<LineKey, usize>,
    /// The line of the latest row.
    latest: Option<(LineKey, usize)>,
    keys: Vec<LineKey>,
    lines: Vec<LineSums>,
    counts: Counts,
    notes: BTreeMap<String, u64>,
}

/// What the sizes of a line have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LineKey {
    collective: Collective,
    dtype: WordId,
    redop: WordId,
    root: i64,
    pattern: WordId,
    is_in_place: bool,
    label: WordId,
    backend: BackendKind,
    nodes: u32,
    ranks: u64,
    gpus_per_process: u32,
    group: Option<u32>,
    network: WordId,
    resources: WordId,
    hosts: WordId,
    device: WordId,
    nccl_version: WordId,
    mpi_version: WordId,
}

/// The results of one line.
#[derive(Default)]
struct LineSums {
    sizes: BTreeMap<u64, SizeSums>,
    proof: LineProof,
}

/// The results of one size.
#[derive(Clone, Copy, Default)]
struct SizeSums {
    time: LogSums,
    busbw: LogSums,
    precision: Option<f64>,
    peak: Option<f64>,
    /// Wrong elements in the rows that were checked; `None` if none was.
    wrong: Option<u64>,
}

impl Collector {
    fn add_file(&mut self, path: &Path, label: Option<&str>) -> Result<Option<String>, RowError> {
        let mut reader = RowReader::open(path)?;
        while let Some(row) = reader.read_row::<ReportRow>()? {
            self.add(&row, label);
        }
        Ok(reader.torn_line())
    }

    fn add(&mut self, row: &ReportRow, label: Option<&str>) {
        self.count(row);
        let Some(time) = row.time_us else { return };
        let key = self.key(row, label);
        let place = self.place(key);
        let line = &mut self.lines[place];
        line.proof.add(row);
        let sums = line.sizes.entry(row.size_bytes).or_default();
        sums.time.add(time.0);
        sums.busbw.add(row.busbw.unwrap_or_default().0);
        sums.precision = row.precision_pct.or(sums.precision);
        sums.peak = row.peak.map(|peak| peak.0).or(sums.peak);
        sums.wrong = sum_of_known(sums.wrong, row.wrong);
    }

    fn place(&mut self, key: LineKey) -> usize {
        if let Some((latest, place)) = self.latest
            && latest == key
        {
            return place;
        }
        let place = *self.places.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.lines.push(LineSums::default());
            self.lines.len() - 1
        });
        self.latest = Some((key, place));
        place
    }

    fn count(&mut self, row: &ReportRow) {
        let counts = &mut self.counts;
        counts.rows += 1;
        counts.wrong_elements += row.wrong.unwrap_or(0);
        *match row.status {
            Status::Ok => &mut counts.ok,
            Status::Wrong => &mut counts.wrong,
            Status::Unchecked => &mut counts.unchecked,
            Status::Computed => &mut counts.computed,
            Status::Waived => &mut counts.waived,
        } += 1;
        if row.note.is_empty() {
            return;
        }
        if let Some(count) = self.notes.get_mut(row.note) {
            *count += 1;
        } else if self.notes.len() < MOST_NOTES {
            self.notes.insert(row.note.to_owned(), 1);
        }
    }

    fn key(&mut self, row: &ReportRow, label: Option<&str>) -> LineKey {
        let words = &mut self.words;
        LineKey {
            collective: row.collective,
            dtype: words.id(0, row.r#type),
            redop: words.id(1, row.redop),
            root: row.root,
            pattern: words.id(2, row.pattern),
            is_in_place: row.in_place == 1,
            label: words.id(3, label.unwrap_or(row.level)),
            backend: row.backend,
            nodes: row.nodes,
            ranks: row.ranks,
            gpus_per_process: row.gpus_per_process,
            group: row.group,
            network: words.id(4, row.network),
            resources: words.id(5, row.resources),
            hosts: words.id(6, row.hosts),
            device: words.id(7, row.device),
            nccl_version: words.id(8, row.nccl_version),
            mpi_version: words.id(9, row.mpi_version),
        }
    }

    fn results(self) -> Results {
        let words = &self.words.all;
        let conditions: Vec<Vec<String>> =
            self.keys.iter().map(|key| key.conditions(words)).collect();
        let (common, special) = common_and_special(&conditions);
        let mut panels: Vec<Panel> = Vec::new();
        for (place, sums) in self.lines.into_iter().enumerate() {
            let key = self.keys[place];
            let variant = &words[key.label as usize];
            let line = Line {
                label: line_label(variant, &special[place]),
                variant: variant.clone(),
                conditions: conditions[place].clone(),
                points: points(&sums.sizes),
                proof: sums.proof,
            };
            add_line(&mut panels, key.case(words), line);
        }
        for panel in &mut panels {
            tell_lines_apart(panel);
        }
        Results {
            panels,
            counts: self.counts,
            notes: self.notes.into_iter().collect(),
            common,
        }
    }
}

impl LineKey {
    fn case(&self, words: &[String]) -> PanelCase {
        PanelCase {
            collective: self.collective.name(),
            dtype: words[self.dtype as usize].clone(),
            redop: words[self.redop as usize].clone(),
            root: self.root,
            pattern: words[self.pattern as usize].clone(),
            is_in_place: self.is_in_place,
        }
    }

    /// Returns the values of [`CONDITIONS`](super::line_conditions::CONDITIONS); empty for one that
    /// is unknown or does not apply.
    fn conditions(&self, words: &[String]) -> Vec<String> {
        let word = |id: WordId| words[id as usize].clone();
        vec![
            self.backend.to_string(),
            self.nodes.to_string(),
            self.ranks.to_string(),
            self.gpus_per_process.to_string(),
            self.group
                .map_or_else(String::new, |group| group.to_string()),
            word(self.network),
            word(self.resources),
            word(self.hosts),
            word(self.device),
            word(self.nccl_version),
            word(self.mpi_version),
        ]
    }
}

fn add_line(panels: &mut Vec<Panel>, case: PanelCase, line: Line) {
    match panels.iter_mut().find(|panel| panel.case == case) {
        Some(panel) => panel.lines.push(line),
        None => panels.push(Panel {
            case,
            lines: vec![line],
        }),
    }
}

/// Numbers the lines of a panel that have the same label.
fn tell_lines_apart(panel: &mut Panel) {
    let labels = distinct(panel.lines.iter().map(|line| line.label.clone()));
    for (line, label) in panel.lines.iter_mut().zip(labels) {
        line.label = label;
    }
}

fn line_label(label: &str, special: &[String]) -> String {
    let mut words = vec![label.to_owned()];
    words.extend_from_slice(special);
    words.join(", ")
}

fn points(sizes: &BTreeMap<u64, SizeSums>) -> Vec<Point> {
    let mut points = Vec::new();
    for (size, sums) in sizes {
        if let Some(time) = sums.time.estimate(sums.precision) {
            points.push(Point {
                size: *size,
                time,
                busbw: sums.busbw.estimate(sums.precision),
                peak: sums.peak,
                wrong: sums.wrong,
            });
        }
    }
    points
}
