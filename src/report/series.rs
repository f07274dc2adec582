//! Time and busbw by case and size: the rows of all runs, added up as they are read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::Deserialize;

use super::{
    estimate::{Estimate, LogSums},
    source::Source,
    table::distinct,
};
use crate::{
    collective::Collective,
    exit::{Code, Failure},
    record::{
        BackendKind, RowError, RowReader, Status,
        read::{finite, number_of_ranks},
    },
    units::{GBps, Micros, counted},
};

/// Different remarks of rows that are kept.
const MOST_NOTES: usize = 50;

/// The columns of a row that a report shows.
#[derive(Deserialize)]
struct Row<'a> {
    collective: Collective,
    backend: BackendKind,
    level: &'a str,
    network: &'a str,
    resources: &'a str,
    nodes: u32,
    #[serde(deserialize_with = "number_of_ranks")]
    ranks: u64,
    gpus_per_process: u32,
    size_bytes: u64,
    r#type: &'a str,
    redop: &'a str,
    root: i64,
    in_place: u8,
    time_us: Option<Micros>,
    #[serde(rename = "busbw_GBps")]
    busbw: Option<GBps>,
    wrong: Option<u64>,
    status: Status,
    note: &'a str,
    // Columns of later versions: absent from files of earlier ones.
    group: Option<u32>,
    #[serde(borrow, default)]
    pattern: &'a str,
    #[serde(borrow, default)]
    hosts: &'a str,
    #[serde(borrow, default)]
    device: &'a str,
    #[serde(borrow, default)]
    nccl_version: &'a str,
    #[serde(borrow, default)]
    mpi_version: &'a str,
    #[serde(borrow, default)]
    pxn: &'a str,
    #[serde(borrow, default)]
    transport: &'a str,
    #[serde(borrow, default)]
    algo: &'a str,
    #[serde(borrow, default)]
    proto: &'a str,
    #[serde(default, deserialize_with = "finite")]
    precision_pct: Option<f64>,
    #[serde(rename = "peak_GBps")]
    peak: Option<GBps>,
}

/// The number of a word in [`Words`].
type WordId = u32;

/// Columns with words.
const WORD_COLUMNS: usize = 10;

/// Words that many rows have, each once.
#[derive(Default)]
struct Words {
    all: Vec<String>,
    ids: HashMap<String, WordId>,
    /// The latest word of each column, which the next row is likely to have too.
    latest: [WordId; WORD_COLUMNS],
}

impl Words {
    fn id(&mut self, column: usize, word: &str) -> WordId {
        let latest = self.latest[column];
        if self
            .all
            .get(latest as usize)
            .is_some_and(|known| known == word)
        {
            return latest;
        }
        self.latest[column] = self.id_of(word);
        self.latest[column]
    }

    fn id_of(&mut self, word: &str) -> WordId {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let id = self.all.len() as WordId;
        self.all.push(word.to_owned());
        self.ids.insert(word.to_owned(), id);
        id
    }
}

/// The columns that say what a line was measured on and with.
pub(super) const CONDITIONS: [&str; 11] = [
    "backend",
    "nodes",
    "ranks",
    "gpus_per_process",
    "group",
    "network",
    "resources",
    "hosts",
    "device",
    "nccl_version",
    "mpi_version",
];

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

/// The results of one line.
#[derive(Default)]
struct LineSums {
    sizes: BTreeMap<u64, SizeSums>,
    proof: Proof,
}

/// What NCCL's log shows about the cases of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Proof {
    /// Rows that used PXN.
    pub(super) used: u64,
    /// Rows that did not.
    pub(super) not_used: u64,
    /// Transports.
    pub(super) transports: BTreeSet<String>,
    /// Algorithms with their protocols.
    pub(super) algorithms: BTreeSet<String>,
}

/// The case that the lines of a panel have in common, apart from the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PanelCase {
    pub(super) collective: &'static str,
    pub(super) dtype: String,
    pub(super) redop: String,
    pub(super) root: i64,
    pub(super) pattern: String,
    pub(super) is_in_place: bool,
}

/// One size of a line.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) size: u64,
    /// In µs.
    pub(super) time: Estimate,
    /// In GB/s; `None` if nothing crosses the bus.
    pub(super) busbw: Option<Estimate>,
    /// The most busbw that the links allow, in GB/s.
    pub(super) peak: Option<f64>,
    /// Wrong elements; `None` if no data were checked.
    pub(super) wrong: Option<u64>,
}

/// The sizes of one variant under the same conditions.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What tells it from the other lines.
    pub(super) label: String,
    /// The level, or the name of its variant in an experiment.
    pub(super) variant: String,
    /// The values of [`CONDITIONS`].
    pub(super) conditions: Vec<String>,
    pub(super) points: Vec<Point>,
    pub(super) proof: Proof,
}

/// Lines that are drawn in one plot.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) case: PanelCase,
    pub(super) lines: Vec<Line>,
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

/// Everything that the rows say.
pub(super) struct Results {
    pub(super) panels: Vec<Panel>,
    pub(super) counts: Counts,
    /// Remarks of rows, with their number.
    pub(super) notes: Vec<(String, u64)>,
    /// What all lines have in common.
    pub(super) common: Vec<String>,
}

/// Reads the rows of all sources. A last line that is cut short is added to `notes`.
///
/// # Errors
///
/// Returns an error if a row cannot be read, or if there is none, and no training step either.
pub(super) fn read(sources: &[Source], notes: &mut Vec<String>) -> anyhow::Result<Results> {
    let mut collector = Collector::default();
    let (replays, sweeps): (Vec<&Source>, Vec<&Source>) =
        sources.iter().partition(|source| source.is_replay);
    for source in &sweeps {
        let added = collector.add_file(&source.csv, source.label.as_deref());
        notes.extend(added.map_err(|error| Failure::of_file("read", &source.csv, &error))?);
    }
    if collector.counts.rows == 0 && replays.is_empty() {
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

impl Collector {
    fn add_file(&mut self, path: &Path, label: Option<&str>) -> Result<Option<String>, RowError> {
        let mut reader = RowReader::open(path)?;
        while let Some(row) = reader.read_row::<Row>()? {
            self.add(&row, label);
        }
        Ok(reader.torn_line())
    }

    fn add(&mut self, row: &Row, label: Option<&str>) {
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

    fn count(&mut self, row: &Row) {
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

    fn key(&mut self, row: &Row, label: Option<&str>) -> LineKey {
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
            let case = key.case(words);
            match panels.iter_mut().find(|panel| panel.case == case) {
                Some(panel) => panel.lines.push(line),
                None => panels.push(Panel {
                    case,
                    lines: vec![line],
                }),
            }
        }
        for panel in &mut panels {
            let labels = distinct(panel.lines.iter().map(|line| line.label.clone()));
            for (line, label) in panel.lines.iter_mut().zip(labels) {
                line.label = label;
            }
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

    /// Returns the values of [`CONDITIONS`]; empty for one that is unknown or does not apply.
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

/// Returns a condition in words; empty if there is nothing to say.
fn in_words(place: usize, value: &str) -> String {
    let number: u64 = value.parse().unwrap_or(0);
    match CONDITIONS[place] {
        _ if value.is_empty() => String::new(),
        "nodes" => counted(number, "node"),
        "ranks" => counted(number, "rank"),
        "gpus_per_process" if number == 0 => String::new(),
        "gpus_per_process" => format!("{} per process", counted(number, "GPU")),
        "group" => format!("communicator {value}"),
        "nccl_version" => format!("NCCL {value}"),
        // It calls itself MPI, with its name.
        "mpi_version" => value.to_owned(),
        name => format!("{name} {value}"),
    }
}

/// Returns the conditions that all lines have, and those of each line that others do not have.
fn common_and_special(all: &[Vec<String>]) -> (Vec<String>, Vec<Vec<String>>) {
    let Some(first) = all.first() else {
        return (Vec::new(), Vec::new());
    };
    let is_common: Vec<bool> = (0..first.len())
        .map(|part| all.iter().all(|one| one[part] == first[part]))
        .collect();
    let chosen = |one: &Vec<String>, common: bool| {
        let mut words = Vec::new();
        for (place, value) in one.iter().enumerate() {
            let word = in_words(place, value);
            if is_common[place] == common && !word.is_empty() {
                words.push(word);
            }
        }
        words
    };
    let special = all.iter().map(|one| chosen(one, false)).collect();
    (chosen(first, true), special)
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

impl Proof {
    fn add(&mut self, row: &Row) {
        match row.pxn {
            "used" => self.used += 1,
            "not used" => self.not_used += 1,
            _ => (),
        }
        remember(&mut self.transports, row.transport);
        if !row.algo.is_empty() && !self.algorithms.iter().any(|known| is(known, row)) {
            remember(&mut self.algorithms, &format!("{} {}", row.algo, row.proto));
        }
    }

    /// Returns whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.used + self.not_used == 0 && self.transports.is_empty() && self.algorithms.is_empty()
    }
}

fn is(known: &str, row: &Row) -> bool {
    known.split_once(' ') == Some((row.algo, row.proto))
}

fn remember(words: &mut BTreeSet<String>, word: &str) {
    const MOST: usize = 12;
    if !word.is_empty() && words.len() < MOST && !words.contains(word) {
        words.insert(word.to_owned());
    }
}

impl PanelCase {
    /// Returns the case in words: `all_reduce, float, sum, out of place`.
    pub(super) fn words(&self) -> String {
        let mut words = vec![self.collective.to_owned(), self.dtype.clone()];
        if self.redop != "none" {
            words.push(self.redop.clone());
        }
        if self.root >= 0 {
            words.push(format!("root {}", self.root));
        }
        if !self.pattern.is_empty() {
            words.push(self.pattern.clone());
        }
        words.push(self.placement().to_owned());
        words.join(", ")
    }

    /// Returns the placement of the buffers in words.
    pub(super) fn placement(&self) -> &'static str {
        if self.is_in_place {
            "in place"
        } else {
            "out of place"
        }
    }
}

/// Returns the sum of what is known of two numbers; `None` if neither is.
pub(super) fn sum_of_known(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first + second),
        (known, None) | (None, known) => known,
    }
}
