//! `ranks.csv`: one row per rank and case.
//!
//! The file is bounded, because 10,000 ranks would make millions of rows: `Thinning` has the rule.

use std::{collections::HashSet, fs, io, path::Path};

use super::{
    csv::{header_of, to_csv},
    error::OutputError,
    format::{Content, OutputFormat},
    kept::keep_copy,
    row_file::{Durability, RowFile},
    target,
    whole_file::replace,
};
use crate::{
    record::{
        IterationStats, ProcessMeta, RankTime, RankTimes, ReadableLines, Record, RunMeta,
        columns::{COLUMNS, Cell, Column, csv_cells, names},
        read,
    },
    units::counted,
};

/// The format of `ranks.csv`. Only a run in which several ranks are timed has the file.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: |paths| {
        let path = paths.in_folder("ranks.csv")?;
        paths.times_several_ranks.then_some(path)
    },
    follows_links: true,
    content: Content::RankRows,
};

/// The columns of `results.csv` that tell a case and its run, with which each row begins.
const KEYS: [&str; 12] = [
    "run_id",
    "started_at",
    "collective",
    "level",
    "repeat",
    "ranks",
    "size_bytes",
    "type",
    "redop",
    "root",
    "in_place",
    "group",
];

/// A column of `ranks.csv` beside those of the case.
type RankColumn = Column<RunMeta, RankTime>;

/// The columns beside those of the case, in order.
pub const RANK_COLUMNS: &[RankColumn] = &[
    RankColumn {
        name: "rank",
        doc: "number among all ranks of the run, from 0, as in `processes` of `run.json`",
        get: |_, rank| u64::from(rank.rank).into(),
    },
    RankColumn {
        name: "host",
        doc: "its host",
        get: |run, rank| {
            process_of(run, rank)
                .map(|process| process.host.as_str())
                .into()
        },
    },
    RankColumn {
        name: "node",
        doc: "number of its node, from 0",
        get: |run, rank| {
            process_of(run, rank)
                .map(|process| u64::from(process.node))
                .into()
        },
    },
    RankColumn {
        name: "local_rank",
        doc: "number of its process on the node, from 0",
        get: |run, rank| {
            process_of(run, rank)
                .map(|process| u64::from(process.local_rank))
                .into()
        },
    },
    RankColumn {
        name: "gpu",
        doc: "index of its GPU among those that its process sees; empty on host memory",
        get: |run, rank| {
            process_of(run, rank)
                .filter(|process| !process.device.uuid.is_empty())
                .map(|process| u64::from(process.device.index))
                .into()
        },
    },
    RankColumn {
        name: "bus",
        doc: "PCI address of its GPU, or `host memory`",
        get: |run, rank| {
            process_of(run, rank)
                .map(|process| process.device.bus.as_str())
                .into()
        },
    },
    RankColumn {
        name: "time_us",
        doc: "time of one operation on this rank in microseconds. GPUs of one thread (`-g`) share \
              the thread's time",
        get: |_, rank| rank.time.0.into(),
    },
    RankColumn {
        name: "iter_min_us",
        doc: "with `-I`: the shortest iteration of its process, divided by its operations; the \
              next columns are of the same iterations, and their rules are those of `results.csv`",
        get: |_, rank| iterations(rank, |iterations| iterations.min.0),
    },
    RankColumn {
        name: "iter_max_us",
        doc: "with `-I`: the longest iteration",
        get: |_, rank| iterations(rank, |iterations| iterations.max.0),
    },
    RankColumn {
        name: "iter_mean_us",
        doc: "with `-I`: their mean",
        get: |_, rank| iterations(rank, |iterations| iterations.mean.0),
    },
    RankColumn {
        name: "iter_p50_us",
        doc: "with `-I`: the median iteration",
        get: |_, rank| iterations(rank, |iterations| iterations.p50.0),
    },
    RankColumn {
        name: "iter_p95_us",
        doc: "with `-I`: 95th percentile of the iterations",
        get: |_, rank| iterations(rank, |iterations| iterations.p95.0),
    },
    RankColumn {
        name: "iter_p99_us",
        doc: "with `-I`: 99th percentile of the iterations",
        get: |_, rank| iterations(rank, |iterations| iterations.p99.0),
    },
    RankColumn {
        name: "iter_cv_pct",
        doc: "with `-I`: standard deviation in percent of the mean",
        get: |_, rank| iterations(rank, IterationStats::variation),
    },
];

fn process_of<'a>(run: &'a RunMeta, rank: &RankTime) -> Option<&'a ProcessMeta> {
    run.processes.get(rank.rank as usize)
}

fn iterations(rank: &RankTime, value: fn(&IterationStats) -> f64) -> Cell {
    rank.iterations.as_ref().map(value).into()
}

/// Returns the columns of the case.
pub fn case_columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| KEYS.contains(&column.name))
}

fn column_names() -> Vec<&'static str> {
    let keys = case_columns().map(|column| column.name);
    keys.chain(names(RANK_COLUMNS)).collect()
}

/// Rows of single ranks that a run writes at most, beside those of the fastest and the slowest rank
/// of each case: about 40 MB.
pub const MOST_ROWS: u64 = 250_000;

/// Which ranks of a case get a row: every n-th, the fastest and the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thinning {
    /// The n of "every n-th".
    step: u64,
    /// Rows of every n-th rank that may still be written.
    left: u64,
}

impl Thinning {
    /// Returns the rule for `ranks` ranks and `cases` cases; 0 cases if their number is not known.
    fn new(ranks: u64, cases: u64) -> Thinning {
        let rows_per_case = (MOST_ROWS / cases.max(1)).max(1);
        Thinning {
            step: ranks.div_ceil(rows_per_case).max(1),
            left: MOST_ROWS,
        }
    }

    /// Returns the positions of the ranks that get a row.
    fn of(&mut self, times: &RankTimes) -> Vec<usize> {
        let step = usize::try_from(self.step).unwrap_or(usize::MAX);
        let mut chosen: Vec<usize> = (0..times.ranks.len()).step_by(step).collect();
        match self.left.checked_sub(chosen.len() as u64) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                chosen.clear();
            }
        }
        if let Some((fastest, slowest)) = times.extremes() {
            chosen.extend([fastest, slowest]);
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}

/// A `ranks.csv` that is being written.
pub(super) struct RankCsv {
    file: RowFile,
    thinning: Thinning,
    /// Whether it was said that the limit has been reached.
    is_full: bool,
}

impl RankCsv {
    /// Creates the file with its header.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn create(path: &Path) -> io::Result<RankCsv> {
        RowFile::create(path, header_of(&column_names()), Durability::AtTheEnd).map(RankCsv::new)
    }

    /// Opens a file that an earlier run left, to continue it. Rows of cases that `results`, the
    /// text of `results.csv`, does not have are removed: those cases are measured again.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or is not a file of this program.
    pub(super) fn resume(path: &Path, results: &str) -> Result<RankCsv, OutputError> {
        let io_error = |error| OutputError::Io(path.to_owned(), error);
        if !path.exists() || target::is_stream(path) {
            return RankCsv::create(path).map_err(io_error);
        }
        let text = fs::read(path).map_err(io_error)?;
        if !begins_with_own_header(&text) {
            let why = "is not a ranks.csv of this program".into();
            return Err(OutputError::Other(path.to_owned(), why));
        }
        let found = ReadableLines::read(read::whole_lines(&text));
        if !found.unreadable.is_empty() {
            let lines = counted(found.unreadable.len(), "line");
            let copy = keep_copy(path).map_err(io_error)?;
            let (path, copy) = (path.display(), copy.display());
            note!(
                "pxnbench: {path}: leaving out {lines}, which cannot be read. The file as it was \
                 is {copy}"
            );
        }
        let kept = kept_rows(&found, results);
        replace(true, path, &kept).map_err(io_error)?;
        let header = header_of(&column_names());
        RowFile::resume(path, header, kept, Durability::AtTheEnd)
            .map(RankCsv::new)
            .map_err(io_error)
    }

    fn new(file: RowFile) -> RankCsv {
        RankCsv {
            file,
            thinning: Thinning::new(1, 0),
            is_full: false,
        }
    }

    /// Returns the file.
    pub(super) fn file(&mut self) -> &mut RowFile {
        &mut self.file
    }

    /// Sets the numbers of ranks and of cases, 0 if there is no end, that decide how many rows are
    /// written. Returns what to say if that is not a row for each rank and case.
    pub(super) fn expect(&mut self, ranks: u64, cases: u64) -> Option<String> {
        self.thinning = Thinning::new(ranks, cases);
        (self.thinning.step > 1).then(|| {
            format!(
                "ranks.csv has every {}th rank of each case, and its fastest and slowest: {ranks} \
                 ranks and {cases} cases would be more than {MOST_ROWS} rows",
                self.thinning.step
            )
        })
    }

    /// Appends the rows of a case. Returns what to say of the file, such as that from this case on
    /// there are only the rows of its fastest and slowest rank.
    pub(super) fn append(&mut self, run: &RunMeta, record: &Record) -> Vec<String> {
        let Some(times) = &record.rank_times else {
            return Vec::new();
        };
        let keys: Vec<String> = case_columns()
            .map(|column| (column.get)(run, record).csv())
            .collect();
        let mut rows = Vec::new();
        for position in self.thinning.of(times) {
            let mut row = keys.clone();
            row.extend(csv_cells(RANK_COLUMNS, run, &times.ranks[position]));
            rows.push(row);
        }
        let mut said = self.file.append(&to_csv(&rows), rows.len() as u64);
        if self.thinning.left == 0 && !self.is_full {
            self.is_full = true;
            said.push(format!(
                "ranks.csv has {MOST_ROWS} rows; of the other cases it has the fastest and the \
                 slowest rank only"
            ));
        }
        said
    }
}

/// Returns whether `text` begins as a `ranks.csv` of this or an earlier version does: with the
/// whole first line, unless the run ended while it wrote that.
fn begins_with_own_header(text: &[u8]) -> bool {
    let own = header_of(&column_names());
    let Some(end) = memchr::memchr(b'\n', text) else {
        return own.as_bytes().starts_with(text);
    };
    let first = text[..end].split(|byte| *byte == b',').next();
    first == Some(column_names()[0].as_bytes())
}

/// Returns the text of a `ranks.csv` with the columns of this version and the rows whose case is in
/// `results`, the text of a `results.csv`.
fn kept_rows(found: &ReadableLines, results: &str) -> String {
    let known = keys_of(results);
    let names = column_names();
    let mut rows = Vec::new();
    for (_, row) in &found.rows {
        let cells: Vec<String> = names
            .iter()
            .map(|name| cell_of(&found.header, row, name))
            .collect();
        if known.contains(&cells[..KEYS.len()]) {
            rows.push(cells);
        }
    }
    header_of(&names) + &to_csv(&rows)
}

/// Returns the cells of `results.csv` that tell a case, of each of its rows.
fn keys_of(results: &str) -> HashSet<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(results.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let mut keys = HashSet::new();
    for row in reader.records().flatten() {
        let key = case_columns().map(|column| cell_of(&header, &row, column.name));
        keys.insert(key.collect());
    }
    keys
}

/// Returns the cell in the column `name`; empty if there is none.
fn cell_of(header: &csv::StringRecord, row: &csv::StringRecord, name: &str) -> String {
    let position = header.iter().position(|known| known == name);
    let cell = position.and_then(|position| row.get(position));
    cell.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Micros;

    fn times(count: u32) -> RankTimes {
        let mut ranks = Vec::new();
        for rank in 0..count {
            // The slowest is rank 7, the fastest rank 5.
            let time = match rank {
                7 => 9.0,
                5 => 1.0,
                _ => 5.0,
            };
            ranks.push(RankTime {
                rank,
                time: Micros(time),
                iterations: None,
            });
        }
        RankTimes::new(ranks).expect("several ranks")
    }

    #[test]
    fn a_small_run_has_all_ranks_and_a_large_one_every_nth_and_the_extremes() {
        let mut all = Thinning::new(10, 100);
        assert_eq!(all.of(&times(10)), (0..10).collect::<Vec<_>>());

        // 250 rows per case.
        let mut thinned = Thinning::new(10_000, 1000);
        assert_eq!(thinned.step, 40);
        let chosen = thinned.of(&times(10_000));
        assert_eq!(chosen[..4], [0, 5, 7, 40]);
        assert_eq!(chosen.len(), 252);
        for _ in 1..1000 {
            assert_eq!(thinned.of(&times(10_000)).len(), 252, "up to the last case");
        }
        assert_eq!(Thinning::new(10_000, 1_000_000).step, 10_000);
    }

    #[test]
    fn without_an_end_the_limit_leaves_the_extremes() {
        let mut thinning = Thinning::new(100_000, 0);
        assert_eq!(thinning.step, 1);
        let times = times(100_000);
        assert_eq!(thinning.of(&times).len(), 100_000);
        assert_eq!(thinning.of(&times).len(), 100_000);
        assert_eq!(thinning.of(&times), [5, 7]);
        assert_eq!(thinning.left, 0);
    }

    #[test]
    fn keys_are_columns_of_the_results() {
        assert_eq!(case_columns().count(), KEYS.len());
    }

    #[test]
    fn rows_of_cases_that_are_measured_again_are_removed() {
        let names = column_names();
        let row = |size: &str, rank: &str| {
            let cell = |name: &&str| match *name {
                "size_bytes" => size.to_owned(),
                "rank" => rank.to_owned(),
                _ => "x".to_owned(),
            };
            names.iter().map(cell).collect::<Vec<String>>().join(",") + "\r\n"
        };
        let results: String = header_of(&KEYS)
            + "x,x,x,x,x,x,8,x,x,x,x,x\r\n"
            // A row that was cut short.
            + "x,x,x";
        let text =
            header_of(&names) + &row("8", "0") + "damaged\r\n" + &row("8", "1") + &row("16", "0");
        let kept = kept_rows(&ReadableLines::read(text.as_bytes()), &results);
        assert_eq!(kept, header_of(&names) + &row("8", "0") + &row("8", "1"));
        let empty = ReadableLines::read(b"");
        assert_eq!(kept_rows(&empty, &results), header_of(&names));
        assert!(begins_with_own_header(text.as_bytes()));
        assert!(begins_with_own_header(b"run_id"));
        assert!(!begins_with_own_header(b"a,b\r\n1,2\r\n"));
        assert!(!begins_with_own_header(b"my notes"));
    }
}
