//! [`Measurements`]: the rows of the runs from which a plan is made.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    check::measured::csv_of,
    collective::{
        Case, Collective,
        data::{DType, RedOp},
        traffic,
    },
    exit::{Code, Failure},
    record::{
        Record, RowError, RowReader, Status,
        read::{CsvRow, named_twice},
    },
    units::{Bytes, Micros, counted},
    visible::excerpt,
};

/// The most rows of all runs together, which bounds memory and time.
const MOST_ROWS: usize = 1_000_000;

/// The shortest time of an operation in microseconds: a nanosecond, below the resolution of any
/// clock.
const LEAST_TIME: f64 = 1e-3;

/// The longest time of an operation in microseconds: about eleven days.
const MOST_TIME: f64 = 1e12;

/// The rows of all runs, by series.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// The conditions under which they were measured; `None` if there is no row.
    pub conditions: Option<Conditions>,
    /// The series in the order of their first rows.
    pub series: Vec<Series>,
    /// Remarks on the files for the user, a sentence each.
    pub remarks: Vec<String>,
}

/// The conditions that all rows must share, because each has costs of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// The backend.
    pub backend: String,
    /// The PXN level.
    pub level: String,
    /// The network.
    pub network: String,
    /// The resources.
    pub resources: String,
    /// The models of the GPUs or processors.
    pub device: String,
}

/// Rows to which one set of costs is fitted: those of all sizes and numbers of ranks.
#[derive(Clone, Debug)]
pub struct Series {
    /// The properties that the rows share.
    pub key: SeriesKey,
    /// The rows.
    pub points: Vec<Point>,
}

/// The properties that the rows of a series share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesKey {
    /// The collective.
    pub collective: Collective,
    /// The element type.
    #[serde(rename = "type")]
    pub dtype: DType,
    /// The reduction; `None` if elements are only moved.
    pub redop: Option<RedOp>,
    /// The traffic of an alltoallv; empty for all others.
    pub pattern: String,
}

/// A measured time of one size on one number of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size as nccl-tests counts it.
    pub size: Bytes,
    /// The number of ranks.
    pub ranks: u64,
    /// The bytes that busbw counts: busbw times the time.
    pub bus_bytes: f64,
    /// The time of one operation.
    pub time: Micros,
    /// The time that NCCL's model predicts; `None` if it is unknown.
    pub predicted: Option<Micros>,
}

impl SeriesKey {
    /// Returns the series that `case` belongs to.
    pub fn of(case: &Case, pattern: &str) -> SeriesKey {
        SeriesKey {
            collective: case.collective,
            dtype: case.dtype,
            redop: case.redop,
            pattern: pattern.to_owned(),
        }
    }

    /// Returns the name of the reduction, as in the columns.
    pub fn redop_name(&self) -> &'static str {
        self.redop.map_or("none", RedOp::name)
    }
}

/// Returns the bytes that busbw counts.
pub(super) fn bus_bytes(case: &Case) -> f64 {
    // A bandwidth of 1 GB/s moves 1000 bytes in a microsecond.
    case.bandwidth(Micros(1.0)).1.0 * 1e3
}

impl Point {
    /// Returns the point of a case that took `time`.
    pub fn new(case: &Case, time: Micros, predicted: Option<Micros>) -> Point {
        Point {
            size: case.size(),
            ranks: case.ranks,
            bus_bytes: bus_bytes(case),
            time,
            predicted,
        }
    }
}

/// The rows so far, and what was left out of them.
#[derive(Default)]
struct Reading {
    measurements: Measurements,
    rows: usize,
    of_communicators: u64,
    of_one_rank: u64,
    wrong: u64,
    /// Nodes, and ranks per node, of the rows.
    layouts: BTreeSet<(u32, u64)>,
}

impl Measurements {
    /// Reads the rows of `runs`: folders with a `results.csv`, or such files.
    ///
    /// # Errors
    /// Returns an error if one cannot be read or is named twice, if the runs differ in their
    /// conditions, or if nothing was measured.
    pub fn read(runs: &[PathBuf]) -> anyhow::Result<Measurements> {
        if let Some(path) = named_twice(runs) {
            let what = format!("{} is named twice. Name each run once", path.display());
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let mut reading = Reading::default();
        for run in runs {
            reading.read(&csv_of(run))?;
        }
        reading.conclude()
    }

    /// Adds a point to its series.
    pub fn add(&mut self, key: &SeriesKey, point: Point) {
        match self.series.iter_mut().find(|series| series.key == *key) {
            Some(series) => series.points.push(point),
            None => self.series.push(Series {
                key: key.clone(),
                points: vec![point],
            }),
        }
    }
}

impl Reading {
    fn read(&mut self, csv: &Path) -> anyhow::Result<()> {
        let cannot = |error: RowError| Failure::of_file("read", csv, &error);
        let usage = |what: String| Failure::on_all_ranks(Code::Usage, what);
        let mut rows = RowReader::open(csv).map_err(cannot)?;
        while let Some(row) = rows.read_row::<CsvRow>().map_err(cannot)? {
            self.rows += 1;
            if self.rows > MOST_ROWS {
                let what = format!("the runs have more than {MOST_ROWS} rows. Name fewer of them");
                return Err(usage(what));
            }
            refuse_impossible_times(&row, csv, &rows)?;
            self.check_conditions(&row, csv)?;
            let record = row.to_record(&traffic::DEFAULT);
            let record = record.ok_or_else(|| {
                usage(format!(
                    "{} has a row that this version does not write. Measure it again with this \
                     version",
                    csv.display()
                ))
            })?;
            self.add(&row, &record);
        }
        self.measurements.remarks.extend(rows.torn_line());
        Ok(())
    }

    /// Refuses a row that was measured under other conditions than the first.
    fn check_conditions(&mut self, row: &CsvRow, csv: &Path) -> anyhow::Result<()> {
        let own = Conditions {
            backend: row.backend.name().to_owned(),
            level: row.level.clone(),
            network: row.network.clone(),
            resources: row.resources.clone(),
            device: row.device.clone(),
        };
        let Some(first) = &self.measurements.conditions else {
            self.measurements.conditions = Some(own);
            return Ok(());
        };
        let pairs = [
            ("backend", &first.backend, &own.backend),
            ("level", &first.level, &own.level),
            ("network", &first.network, &own.network),
            ("resources", &first.resources, &own.resources),
            ("device", &first.device, &own.device),
        ];
        let Some((what, first, other)) = pairs.into_iter().find(|(_, a, b)| a != b) else {
            return Ok(());
        };
        let what = format!(
            "{} was measured with another {what} ('{}') than the rows before it ('{}'). Plan from \
             runs that differ in ranks and sizes only",
            csv.display(),
            excerpt(other),
            excerpt(first)
        );
        Err(Failure::on_all_ranks(Code::Usage, what))
    }

    fn add(&mut self, row: &CsvRow, record: &Record) {
        let Some(time) = record.time.filter(|time| time.0 > 0.0) else {
            return;
        };
        match record.status {
            Status::Waived => return,
            Status::Wrong => {
                self.wrong += 1;
                return;
            }
            Status::Ok | Status::Unchecked | Status::Computed => {}
        }
        if row.group.is_some() {
            self.of_communicators += 1;
            return;
        }
        if row.ranks < 2 {
            self.of_one_rank += 1;
            return;
        }
        let per_node = row.ranks.div_ceil(u64::from(row.nodes.max(1)));
        self.layouts.insert((row.nodes, per_node));
        let key = SeriesKey::of(&record.case, &row.pattern);
        let predicted = record.predicted.filter(|time| time.0 > 0.0);
        self.measurements
            .add(&key, Point::new(&record.case, time, predicted));
    }

    fn conclude(mut self) -> anyhow::Result<Measurements> {
        let left_out = [
            (
                self.of_one_rank,
                "on one rank, which nothing is moved between",
            ),
            (self.wrong, "with wrong data"),
            (
                self.of_communicators,
                "of several communicators at the same time",
            ),
        ];
        for (number, which) in left_out {
            if number > 0 {
                let remark = format!("{} {which} left out.", counted(number, "row"));
                self.measurements.remarks.push(remark);
            }
        }
        if self.measurements.series.is_empty() {
            let what = format!(
                "the runs have no times on two or more ranks: nothing to plan from ({}). Measure \
                 a sweep on at least two ranks",
                counted(self.rows as u64, "row")
            );
            return Err(Failure::on_all_ranks(Code::NothingRan, what));
        }
        self.measurements
            .remarks
            .extend(remark_on_nodes(&self.layouts).map(str::to_owned));
        Ok(self.measurements)
    }
}

/// Refuses a row with a time that no operation takes: the costs that follow would be as impossible,
/// or not found at all. A time of 0 is one that was rounded.
fn refuse_impossible_times(row: &CsvRow, csv: &Path, rows: &RowReader) -> anyhow::Result<()> {
    for (column, time) in [("time_us", row.time), ("predicted_us", row.predicted)] {
        let Some(Micros(time)) = time.filter(|time| time.0 != 0.0) else {
            continue;
        };
        let why = if time < LEAST_TIME {
            "shorter than a nanosecond"
        } else if time > MOST_TIME {
            "longer than a job takes"
        } else {
            continue;
        };
        let line = rows.line();
        let what = format!(
            "{}, line {line}: {column} is {time:e}, which is {why}. Remove the row, or measure it \
             again",
            csv.display()
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    Ok(())
}

/// Returns a remark if runs mix links within nodes and between nodes, or have only the former. A
/// layout is a number of nodes, and of ranks per node.
fn remark_on_nodes(layouts: &BTreeSet<(u32, u64)>) -> Option<&'static str> {
    let are_of_one_node = layouts.iter().all(|(nodes, _)| *nodes < 2);
    let per_node: BTreeSet<u64> = layouts.iter().map(|(_, per_node)| *per_node).collect();
    let is_mixed = per_node.len() > 1 || layouts.iter().any(|(nodes, _)| *nodes < 2);
    if are_of_one_node {
        return Some(
            "All runs are of one node: what a network between nodes costs is not in them.",
        );
    }
    is_mixed.then_some(
        "The runs differ in ranks per node, or some are of one node: links within a node and \
         between nodes are fitted as one.",
    )
}
