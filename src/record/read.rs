//! Reads `results.csv` and `run.json`: the rows as [`CsvRow`]s, the run as [`RunMeta`].
//!
//! Columns are found by their names, so that files of other versions can be read; derived numbers are not read back into a
//! [`Record`], because they follow from the case and the time.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use chrono::{DateTime, FixedOffset};
use serde::{Deserialize, Deserializer, de::Error};

use super::{
    backend::BackendKind,
    case_record::{NcclEvidence, Record, Status},
    columns::{COLUMNS, pxn_word},
    iteration_stats::IterationStats,
    rank_times::RankTimes,
    row_reader::take_guards_off,
    run_meta::{MeasuredOn, RunMeta},
};
use crate::{
    collective::{
        BufferMode, Case, CaseShape, Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    input::{self, InputKind},
    units::{self, Bytes, GBps, Micros},
};

/// One row of `results.csv`. [`COLUMNS`] describes the columns.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each field is a column of COLUMNS")]
pub struct CsvRow {
    pub run_id: String,
    pub started_at: DateTime<FixedOffset>,
    pub collective: Collective,
    pub backend: BackendKind,
    pub level: String,
    pub network: String,
    pub resources: String,
    pub step: Option<u32>,
    pub repeat: u32,
    pub nodes: u32,
    #[serde(deserialize_with = "number_of_ranks")]
    pub ranks: u64,
    pub gpus_per_process: u32,
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    pub count: u64,
    #[serde(rename = "type")]
    pub dtype: DType,
    #[serde(deserialize_with = "redop")]
    pub redop: Option<RedOp>,
    #[serde(deserialize_with = "root")]
    pub root: Option<u32>,
    #[serde(rename = "in_place", deserialize_with = "buffer_mode")]
    pub buffer_mode: BufferMode,
    pub iters: Option<u32>,
    #[serde(rename = "time_us")]
    pub time: Option<Micros>,
    #[serde(rename = "busbw_GBps", default, deserialize_with = "finite")]
    pub busbw: Option<f64>,
    pub wrong: Option<u64>,
    pub status: Status,
    pub note: String,
    // Columns of later versions: absent from files of earlier ones.
    #[serde(default, deserialize_with = "pxn")]
    pub pxn: Option<bool>,
    #[serde(default)]
    pub transport: String,
    pub channels: Option<u32>,
    #[serde(default)]
    pub algo: String,
    #[serde(default)]
    pub proto: String,
    pub group: Option<u32>,
    #[serde(rename = "issue_us")]
    pub issue: Option<Micros>,
    #[serde(rename = "iter_min_us")]
    pub iter_min: Option<Micros>,
    #[serde(rename = "iter_max_us")]
    pub iter_max: Option<Micros>,
    #[serde(rename = "iter_mean_us")]
    pub iter_mean: Option<Micros>,
    #[serde(rename = "iter_p50_us")]
    pub iter_p50: Option<Micros>,
    #[serde(rename = "iter_p95_us")]
    pub iter_p95: Option<Micros>,
    #[serde(rename = "iter_p99_us")]
    pub iter_p99: Option<Micros>,
    #[serde(rename = "iter_cv_pct", default, deserialize_with = "finite")]
    pub iter_cv: Option<f64>,
    #[serde(default)]
    pub pattern: String,
    #[serde(default)]
    pub hosts: String,
    #[serde(default)]
    pub device: String,
    #[serde(default)]
    pub nccl_version: String,
    #[serde(default)]
    pub mpi_version: String,
    #[serde(rename = "rank_p50_us")]
    pub rank_p50: Option<Micros>,
    #[serde(rename = "rank_p95_us")]
    pub rank_p95: Option<Micros>,
    #[serde(rename = "rank_p99_us")]
    pub rank_p99: Option<Micros>,
    #[serde(rename = "rank_max_us")]
    pub rank_max: Option<Micros>,
    #[serde(rename = "rank_cv_pct", default, deserialize_with = "finite")]
    pub rank_cv: Option<f64>,
    #[serde(rename = "precision_pct", default, deserialize_with = "finite")]
    pub precision: Option<f64>,
    pub blocks: Option<u32>,
    #[serde(rename = "peak_GBps")]
    pub peak: Option<GBps>,
    #[serde(rename = "pct_peak", default, deserialize_with = "finite")]
    pub percent_of_peak: Option<f64>,
    #[serde(rename = "predicted_us")]
    pub predicted: Option<Micros>,
}

/// What a row says of its case, its conditions and its time, without the rest, and with the words as they stand in the
/// file: for readers of many rows.
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(missing_docs, reason = "each field is a column of COLUMNS")]
pub struct RowView<'a> {
    pub collective: Collective,
    pub backend: BackendKind,
    pub level: &'a str,
    pub network: &'a str,
    pub resources: &'a str,
    pub repeat: u32,
    pub nodes: u32,
    #[serde(deserialize_with = "number_of_ranks")]
    pub ranks: u64,
    pub gpus_per_process: u32,
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    #[serde(rename = "type")]
    pub dtype: DType,
    #[serde(deserialize_with = "redop")]
    pub redop: Option<RedOp>,
    #[serde(deserialize_with = "root")]
    pub root: Option<u32>,
    #[serde(rename = "in_place", deserialize_with = "buffer_mode")]
    pub buffer_mode: BufferMode,
    pub iters: Option<u32>,
    #[serde(rename = "time_us")]
    pub time: Option<Micros>,
    pub status: Status,
    // Columns of later versions: absent from files of earlier ones.
    pub group: Option<u32>,
    #[serde(borrow, default)]
    pub pattern: &'a str,
    #[serde(borrow, default)]
    pub hosts: &'a str,
    #[serde(borrow, default)]
    pub device: &'a str,
    #[serde(borrow, default)]
    pub nccl_version: &'a str,
    #[serde(borrow, default)]
    pub mpi_version: &'a str,
}

/// Reads the rows of `text`, a CSV with its header, one by one: a row that was cut short or is malformed is an error and
/// does not hide the others.
pub fn parse_rows(text: &str) -> Vec<Result<CsvRow, csv::Error>> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => return vec![Err(error)],
    };
    let read = |record: Result<csv::StringRecord, csv::Error>| {
        let mut record = record?;
        take_guards_off(&mut record);
        record.deserialize(Some(&header))
    };
    reader.records().map(read).collect()
}

/// Returns the first of `runs` that is the same as an earlier one: counted twice, its times would look like more measurements
/// than there are. A run is its folder or the `results.csv` in it.
pub fn named_twice(runs: &[PathBuf]) -> Option<&PathBuf> {
    let mut files = HashSet::new();
    runs.iter().find(|run| match fs::canonicalize(run) {
        Ok(folder) if folder.is_dir() => !files.insert(folder.join("results.csv")),
        Ok(file) => !files.insert(file),
        // It cannot be read: that is said where it is read.
        Err(_) => false,
    })
}

/// Reads the `run.json` at `path`; `None` if there is none or it cannot be read.
pub fn read_run(path: &Path) -> Option<RunMeta> {
    serde_json::from_slice(&input::read(path, InputKind::Json).ok()?).ok()
}

/// Reads the `run.json` at `path` as plain JSON, with the keys that its version wrote and no defaults for the others;
/// `None` if there is none or it cannot be read.
pub fn read_run_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&input::read(path, InputKind::Json).ok()?).ok()
}

/// Returns whether `text` begins with a CSV header of this program, of this version or an earlier one. Empty text does, and
/// the beginning of a header: of a run that ended while it wrote it.
pub fn has_own_header(text: &str) -> bool {
    let Some((header, _)) = text.split_once('\n') else {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        return (names.join(",") + "\r").starts_with(text);
    };
    let header = header.strip_suffix('\r').unwrap_or(header);
    let names: Vec<&str> = header.split(',').collect();
    let known = COLUMNS.iter().map(|column| column.name);
    names.len() > 20
        && names.len() <= COLUMNS.len()
        && names.iter().zip(known).all(|(name, known)| *name == known)
}

/// Returns `text` up to the end of its last complete line.
pub fn whole_lines(text: &[u8]) -> &[u8] {
    memchr::memrchr(b'\n', text).map_or(&[], |end| &text[..=end])
}

/// Reads a row of [`ReadableLines`](super::ReadableLines), whose cells are as they stand in the file.
///
/// # Errors
/// Returns an error if a cell cannot be read.
pub fn parse_row(cells: &csv::StringRecord, header: &csv::StringRecord) -> csv::Result<CsvRow> {
    let mut cells = cells.clone();
    take_guards_off(&mut cells);
    cells.deserialize(Some(header))
}

impl CsvRow {
    /// Returns the record that was written as this row; `None` if this version would not write such a row. `traffic` is the
    /// traffic of an alltoallv in the current run.
    pub fn to_record(&self, traffic: &'static Traffic) -> Option<Record> {
        let wrong = self.wrong.unwrap_or(0);
        Some(Record {
            started_at: self.started_at,
            iters: self.iters.unwrap_or(0),
            time: self.time,
            issue: self.issue,
            iteration_times: self.iteration_times(),
            rank_times: self.rank_times(),
            precision: self.precision.map(|percent| percent / 100.0),
            blocks: self.blocks,
            wrong: self.wrong,
            failed_checks: u64::from(wrong > 0),
            note: self.note.clone(),
            seen: self.evidence(),
            pattern: self.pattern.clone(),
            peak: self.peak,
            predicted: self.predicted,
            measured_on: Some(self.measured_on()),
            ..Record::new(self.case(traffic)?, self.status)
        })
    }

    /// Returns what the row was measured on.
    pub fn measured_on(&self) -> MeasuredOn {
        MeasuredOn {
            hosts: self.hosts.clone(),
            device: self.device.clone(),
            nccl_version: self.nccl_version.clone(),
            mpi_version: self.mpi_version.clone(),
        }
    }

    fn case(&self, traffic: &'static Traffic) -> Option<Case> {
        let is_of_this_run = self.pattern == traffic.label();
        let case = CaseShape {
            collective: self.collective,
            dtype: self.dtype,
            redop: self.redop,
            root: self.root,
            buffer_mode: self.buffer_mode,
            ranks: self.ranks,
        }
        .nearest(self.size);
        case.recorded(self.size, self.count, is_of_this_run.then_some(traffic))
    }

    /// Returns the statistics of single iterations. The iterations themselves are not in the file.
    fn iteration_times(&self) -> Option<IterationStats> {
        let mean = self.iter_mean?;
        Some(IterationStats {
            skipped: 0,
            min: self.iter_min?,
            max: self.iter_max?,
            mean,
            p50: self.iter_p50?,
            p95: self.iter_p95?,
            p99: self.iter_p99?,
            deviation: Micros(self.iter_cv? * mean.0 / 100.0),
            times: Vec::new(),
        })
    }

    /// Returns the distribution over the ranks. The ranks themselves are not in the file.
    fn rank_times(&self) -> Option<RankTimes> {
        Some(RankTimes {
            p50: self.rank_p50?,
            p95: self.rank_p95?,
            p99: self.rank_p99?,
            max: self.rank_max?,
            variation: self.rank_cv?,
            ranks: Vec::new(),
        })
    }

    fn evidence(&self) -> NcclEvidence {
        NcclEvidence {
            pxn: self.pxn,
            transport: self.transport.clone(),
            channels: self.channels,
            algo: self.algo.clone(),
            proto: self.proto.clone(),
            operation_channels: None,
        }
    }
}

/// Reads the column `redop`: `none` for collectives that only move elements.
fn redop<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<RedOp>, D::Error> {
    let name = <&str>::deserialize(cell)?;
    if name == "none" {
        return Ok(None);
    }
    match RedOp::ALL.into_iter().find(|redop| redop.name() == name) {
        Some(redop) => Ok(Some(redop)),
        None => Err(D::Error::custom(format!("unknown redop {name}"))),
    }
}

/// Reads a number; empty if it is unknown.
///
/// # Errors
/// Returns an error if it is infinite or none at all.
pub fn finite<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(cell)? {
        Some(value) if !value.is_finite() => Err(D::Error::custom(units::NOT_FINITE)),
        value => Ok(value),
    }
}

/// The most ranks that a row may have. What is computed of a row takes longer with more of them, and no machine has so many.
pub const MOST_RANKS: u64 = 1 << 20;

/// Reads a number of ranks.
///
/// # Errors
/// Returns an error if it is 0 or more than [`MOST_RANKS`].
pub fn number_of_ranks<'de, D: Deserializer<'de>>(cell: D) -> Result<u64, D::Error> {
    match u64::deserialize(cell)? {
        0 => Err(D::Error::custom("there is at least one rank")),
        ranks if ranks > MOST_RANKS => Err(D::Error::custom(format!(
            "there are at most {MOST_RANKS} ranks"
        ))),
        ranks => Ok(ranks),
    }
}

/// Reads the column `root`: -1 for collectives without one.
fn root<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<u32>, D::Error> {
    Ok(i64::deserialize(cell)?.try_into().ok())
}

/// Reads the column `in_place`: 1 or 0.
fn buffer_mode<'de, D: Deserializer<'de>>(cell: D) -> Result<BufferMode, D::Error> {
    match u8::deserialize(cell)? {
        1 => Ok(BufferMode::InPlace),
        _ => Ok(BufferMode::OutOfPlace),
    }
}

/// Reads the column `pxn`; empty if unknown.
fn pxn<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<bool>, D::Error> {
    let word = <&str>::deserialize(cell)?;
    Ok([false, true]
        .into_iter()
        .find(|used| pxn_word(*used) == word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::traffic::DEFAULT;
    use crate::record::RowReader;

    /// The records of `text`, and the number of rows that are none.
    fn records(text: &str) -> (Vec<Record>, usize) {
        let rows = parse_rows(text);
        let count = rows.len();
        let records: Vec<Record> = rows
            .into_iter()
            .filter_map(|row| row.ok()?.to_record(&DEFAULT))
            .collect();
        let unread = count - records.len();
        (records, unread)
    }

    fn header() -> String {
        COLUMNS
            .iter()
            .map(|column| column.name)
            .collect::<Vec<_>>()
            .join(",")
    }

    const ROW: &str = "r,2026-11-28T00:00:00+00:00,all_gather,host,default,auto,none,,0,1,3,0,48,4,float,none,-1,1,20,12.5,\
                       0.00384,0.00256,0,ok,,not used,P2P+NET/IB,24,RING,LL,,2.5,10,20,13,12,18,19,10,,\
                       n[1-3],EPYC,2.28.3,Open MPI 4.1.4,12,13,13.5,14,5,0.8,12,0.0128,20,11.5";

    #[test]
    fn a_row_is_read_as_it_was() {
        let (records, unread) = records(&format!("{}\r\n{ROW}\r\n", header()));
        assert_eq!(unread, 0);
        let [record] = &records[..] else {
            panic!("{records:?}")
        };
        let asked = CaseShape {
            collective: Collective::AllGather,
            dtype: DType::Float,
            redop: None,
            root: None,
            buffer_mode: BufferMode::InPlace,
            ranks: 3,
        }
        .nearest(Bytes(64));
        assert_eq!(
            record.case, asked,
            "the case that 64 bytes ask for on 3 ranks"
        );
        let seen = NcclEvidence {
            pxn: Some(false),
            transport: "P2P+NET/IB".into(),
            channels: Some(24),
            algo: "RING".into(),
            proto: "LL".into(),
            operation_channels: None,
        };
        assert_eq!(record.seen, seen);
        assert_eq!(record.issue, Some(Micros(2.5)));
        let iteration_times = record.iteration_times.as_ref().expect("the statistics");
        assert_eq!(
            (
                iteration_times.min,
                iteration_times.max,
                iteration_times.mean,
                iteration_times.p99
            ),
            (Micros(10.0), Micros(20.0), Micros(13.0), Micros(19.0))
        );
        assert!((iteration_times.variation() - 10.0).abs() < 1e-9);
        assert_eq!(
            (record.time, record.wrong, record.status),
            (Some(Micros(12.5)), Some(0), Status::Ok)
        );
    }

    #[test]
    fn a_file_is_read_row_by_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.csv");
        let second = ROW.replace(",12.5,", ",,").replace(",ok,", ",waived,");
        let cut = &ROW[..60];
        let text = format!("{}\r\n{ROW}\r\n{second}\r\n{cut}", header());
        fs::write(&path, text).expect("written");
        let mut reader = RowReader::open(&path).expect("opened");

        let row: RowView = reader.read_row().expect("readable").expect("a row");
        assert_eq!(
            (row.level, row.hosts, row.mpi_version),
            ("default", "n[1-3]", "Open MPI 4.1.4")
        );
        assert_eq!((row.redop, row.root), (None, None));
        assert_eq!((row.time, row.status), (Some(Micros(12.5)), Status::Ok));
        let row: CsvRow = reader.read_row().expect("readable").expect("a row");
        assert_eq!((row.time, row.status), (None, Status::Waived));
        let last = reader.read_row::<RowView>().expect("readable");
        assert!(last.is_none(), "a row that was cut");
        assert!(reader.torn_line().is_some());
        assert!(RowReader::open(&folder.path().join("none.csv")).is_err());
    }

    #[test]
    fn a_view_of_a_file_without_the_later_columns_leaves_them_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.csv");
        let header = header();
        let (early, _) = header.split_once(",pxn").expect("a later column");
        let cells: Vec<&str> = ROW.split(',').take(early.split(',').count()).collect();
        fs::write(&path, format!("{early}\r\n{}\r\n", cells.join(","))).expect("written");
        let mut reader = RowReader::open(&path).expect("opened");
        let row: RowView = reader.read_row().expect("readable").expect("a row");
        assert_eq!((row.hosts, row.pattern, row.group), ("", "", None));
        assert!(reader.read_row::<RowView>().expect("the end").is_none());
    }

    /// Returns a run that writes the columns of the run as in `row`.
    fn run_of(row: &CsvRow) -> RunMeta {
        serde_json::from_value(serde_json::json!({
            "format": 1, "pxnbench": "", "run_id": row.run_id, "started_at": row.started_at, "ended_at": null, "end": null,
            "command": [], "backend": row.backend, "backend_why": "", "level": row.level, "network": row.network,
            "resources": row.resources, "job": null, "step": row.step, "repeat": row.repeat, "nodes": row.nodes,
            "ranks": row.ranks, "gpus_per_process": row.gpus_per_process, "versions": {}, "environment": {},
            "processes": [], "startup_s": null, "phases": [],
        }))
        .expect("a run")
    }

    #[test]
    fn no_column_is_lost_when_a_run_is_resumed() {
        // A column that no record of this row has: its value would have to be lost without being noticed.
        let empty_here = ["step", "note", "group", "pattern"];
        let row = parse_rows(&format!("{}\r\n{ROW}\r\n", header()))
            .remove(0)
            .expect("a row");
        let (run, record) = (run_of(&row), row.to_record(&DEFAULT).expect("a record"));
        assert_eq!(
            ROW.split(',').count(),
            COLUMNS.len(),
            "give ROW a value for the new column"
        );
        for (column, cell) in COLUMNS.iter().zip(ROW.split(',')) {
            assert_eq!((column.get)(&run, &record).csv(), cell, "{}", column.name);
            assert_eq!(
                cell.is_empty(),
                empty_here.contains(&column.name),
                "{}",
                column.name
            );
        }
    }

    #[test]
    fn words_that_a_spreadsheet_would_change_are_read_as_they_were() {
        let cells: Vec<&str> = ROW.split(',').collect();
        let place = |name: &str| {
            COLUMNS
                .iter()
                .position(|column| column.name == name)
                .expect(name)
        };
        let mut written = cells.clone();
        written[place("hosts")] = "'mar1";
        written[place("note")] = "'=HYPERLINK(1)";
        written[place("mpi_version")] = "'quoted";
        let text = format!("{}\r\n{}\r\n", header(), written.join(","));
        let row = parse_rows(&text).remove(0).expect("a row");
        assert_eq!(
            (row.hosts.as_str(), row.note.as_str()),
            ("mar1", "=HYPERLINK(1)")
        );
        assert_eq!(row.mpi_version, "'quoted");
        let (run, record) = (run_of(&row), row.to_record(&DEFAULT).expect("a record"));
        for (column, cell) in COLUMNS.iter().zip(&written) {
            assert_eq!((column.get)(&run, &record).csv(), *cell, "{}", column.name);
        }
    }

    #[test]
    fn a_row_that_was_cut_short_is_left_out() {
        for cut in [
            5,
            60,
            100,
            ROW.len() - ",Open MPI 4.1.4,12,13,13.5,14,5,0.8,12,0.0128,20,11.5".len(),
        ] {
            let text = format!("{}\r\n{ROW}\r\n{}", header(), &ROW[..cut]);
            let whole = std::str::from_utf8(whole_lines(text.as_bytes())).expect("UTF-8");
            assert_eq!(records(whole).0.len(), 1);
            let (records, unread) = records(&text);
            assert_eq!((records.len(), unread), (1, 1), "cut at {cut}");
        }
    }

    #[test]
    fn absurd_numbers_are_no_row_of_this_program() {
        for (sane, absurd) in [
            (",3,0,48,", ",0,0,48,"),
            (",3,0,48,", ",1000000000000,0,48,"),
            (",48,4,", ",18446744073709551615,4,"),
            (",48,4,", ",48,18446744073709551615,"),
            (",48,4,", ",0,0,"),
        ] {
            for collective in ["all_gather", "alltoallv", "hypercube", "gather"] {
                let row = ROW.replace(sane, absurd).replace("all_gather", collective);
                let (records, _) = records(&format!("{}\r\n{row}\r\n", header()));
                // A case of no bytes can be, and that of an alltoallv of unknown traffic is as the row says.
                let can_be = absurd == ",0,0," || collective == "alltoallv";
                assert!(records.is_empty() || can_be, "{row}");
            }
        }
    }

    #[test]
    fn only_the_beginning_of_a_header_may_lack_its_end() {
        let header = header();
        for own in ["", "run_id", &header[..100], &header] {
            assert!(has_own_header(own), "{own}");
        }
        assert!(has_own_header(&format!("{header}\r\nrow")));
        assert!(has_own_header(&format!("{header}\n")));
        for other in ["my notes", "my notes\n", "\n", "run_id,other", "run_id\n"] {
            assert!(!has_own_header(other), "{other}");
        }
    }

    #[test]
    fn a_row_without_the_later_columns_is_read() {
        let header = header();
        let (early, _) = header.split_once(",pxn").expect("a later column");
        let cells: Vec<&str> = ROW.split(',').take(early.split(',').count()).collect();
        let (records, unread) = records(&format!("{early}\r\n{}\r\n", cells.join(",")));
        assert_eq!((records.len(), unread), (1, 0));
        assert_eq!(records[0].seen, NcclEvidence::default());
    }
}
