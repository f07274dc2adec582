//! [`CsvRow`]: a row of `results.csv`, and the record that was written as it.

use chrono::{DateTime, FixedOffset};
use serde::Deserialize;

use super::cells::{buffer_mode, finite, number_of_ranks, pxn, redop, root};
use crate::{
    collective::{
        BufferMode, Case, CaseShape, Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    record::{
        BackendKind, IterationStats, MeasuredOn, NcclEvidence, RankTimes, Record, Status,
        row_reader::take_guards_off,
    },
    units::{Bytes, GBps, Micros},
};

/// One row of `results.csv`. [`COLUMNS`](crate::record::columns::COLUMNS) describes the columns.
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

impl CsvRow {
    /// Returns the record that was written as this row; `None` if this version would not write such
    /// a row. `traffic` is the traffic of an alltoallv in the current run.
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

/// Reads the rows of `text`, a CSV with its header, one by one: a row that was cut short or is
/// malformed is an error and does not hide the others.
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

/// Reads a row of [`ReadableLines`](crate::record::ReadableLines), whose cells are as they stand in
/// the file.
///
/// # Errors
/// Returns an error if a cell cannot be read.
pub fn parse_row(cells: &csv::StringRecord, header: &csv::StringRecord) -> csv::Result<CsvRow> {
    let mut cells = cells.clone();
    take_guards_off(&mut cells);
    cells.deserialize(Some(header))
}
