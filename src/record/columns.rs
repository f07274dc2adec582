//! [`COLUMNS`]: the only list of columns. CSV header, JSON keys and `docs/FORMAT.md` are made from
//! it.
//!
//! Later columns are appended, never inserted, so that spreadsheets built on a position keep
//! working.

use chrono::SecondsFormat;

use super::{
    case_record::Record,
    rank_times::RankTimes,
    run_meta::{MeasuredOn, RunMeta},
    spreadsheet::guarded,
};
use crate::{collective::BufferMode, units::significant};

/// Significant digits of a number: more than a clock gives, few enough to read.
const DIGITS: usize = 6;

/// The value of one column in one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// Unknown, or does not apply; the note says why.
    Empty,
}

impl Cell {
    /// Returns the text of a CSV cell: dots for decimals, six significant digits, nothing but the
    /// number; words so that a spreadsheet leaves them alone.
    pub fn csv(&self) -> String {
        match self {
            Cell::Text(text) => guarded(text).into_owned(),
            Cell::Integer(value) => value.to_string(),
            Cell::Number(value) => significant(*value, DIGITS).to_string(),
            Cell::Empty => String::new(),
        }
    }

    /// Returns the JSON value: numbers as numbers, unknown as null.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            Cell::Integer(value) => (*value).into(),
            Cell::Number(value) => significant(*value, DIGITS).into(),
            Cell::Empty => serde_json::Value::Null,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Cell::Number(value as f64), Cell::Integer)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number(value)
    }
}

/// One column: of `results.csv` and every other format of records unless other types are named.
pub struct Column<Run = RunMeta, Row = Record> {
    /// CSV header and JSON key; carries the unit.
    pub name: &'static str,
    /// What it is, for `docs/FORMAT.md`.
    pub doc: &'static str,
    /// Its value.
    pub get: fn(&Run, &Row) -> Cell,
}

/// Returns the names of `columns`.
pub fn names<Run, Row>(columns: &[Column<Run, Row>]) -> Vec<&'static str> {
    columns.iter().map(|column| column.name).collect()
}

/// Returns the cells of a row of a CSV file.
pub fn csv_cells<Run, Row>(columns: &[Column<Run, Row>], run: &Run, row: &Row) -> Vec<String> {
    let cells = columns.iter().map(|column| (column.get)(run, row).csv());
    cells.collect()
}

/// All columns, in order.
pub const COLUMNS: &[Column] = &[
    Column {
        name: "run_id",
        doc: "name of the run, the same in every file of it",
        get: |run, _| run.run_id.as_str().into(),
    },
    Column {
        name: "started_at",
        doc: "when the case began, ISO 8601 with offset",
        get: |_, record| {
            Cell::Text(
                record
                    .started_at
                    .to_rfc3339_opts(SecondsFormat::Secs, false),
            )
        },
    },
    Column {
        name: "collective",
        doc: "nccl-tests' name, without `_perf`",
        get: |_, record| record.case.collective.name().into(),
    },
    Column {
        name: "backend",
        doc: "`nccl`, `host` or `model`",
        get: |run, _| run.backend.name().into(),
    },
    Column {
        name: "level",
        doc: "PXN level in force on every rank; `custom` if ranks differ or the settings match no \
              level",
        get: |run, _| run.level.as_str().into(),
    },
    Column {
        name: "network",
        doc: "requested network; `custom` if other settings override its own",
        get: |run, _| run.network.as_str().into(),
    },
    Column {
        name: "resources",
        doc: "resources in force on every rank; `custom` as for the level",
        get: |run, _| run.resources.as_str().into(),
    },
    Column {
        name: "step",
        doc: "number of the job step; empty outside one",
        get: |run, _| run.step.map(u64::from).into(),
    },
    Column {
        name: "repeat",
        doc: "number of the repetition, from 0; each cycle of `-N` is one",
        get: |run, record| (u64::from(run.repeat) + u64::from(record.cycle)).into(),
    },
    Column {
        name: "nodes",
        doc: "nodes",
        get: |run, _| u64::from(run.nodes).into(),
    },
    Column {
        name: "ranks",
        doc: "ranks; the n in the formulas of busbw",
        get: |_, record| record.case.ranks.into(),
    },
    Column {
        name: "gpus_per_process",
        doc: "GPUs that each process drives; 0 on host memory",
        get: |run, _| u64::from(run.gpus_per_process).into(),
    },
    Column {
        name: "size_bytes",
        doc: "the larger of what a rank sends and receives, after rounding, as nccl-tests counts \
              it",
        get: |_, record| record.case.size().0.into(),
    },
    Column {
        name: "count",
        doc: "elements handed to the library",
        get: |_, record| record.case.counts.param.into(),
    },
    Column {
        name: "type",
        doc: "element type",
        get: |_, record| record.case.dtype.name().into(),
    },
    Column {
        name: "redop",
        doc: "reduction; `none` if elements are only moved",
        get: |_, record| record.case.redop_name().into(),
    },
    Column {
        name: "root",
        doc: "root rank; -1 if there is none",
        get: |_, record| Cell::Integer(record.case.root_number()),
    },
    Column {
        name: "in_place",
        doc: "1 if send and receive use one buffer, otherwise 0",
        get: |_, record| Cell::Integer((record.case.buffer_mode == BufferMode::InPlace).into()),
    },
    Column {
        name: "iters",
        doc: "timed operations; empty if the case did not run or was not timed",
        get: |_, record| record.time.map(|_| u64::from(record.iters)).into(),
    },
    Column {
        name: "time_us",
        doc: "time of one operation in microseconds, mean over ranks",
        get: |_, record| record.time.map(|time| time.0).into(),
    },
    Column {
        name: "algbw_GBps",
        doc: "algorithm bandwidth, 10⁹ bytes per second",
        get: |_, record| record.bandwidth().map(|(algbw, _)| algbw.0).into(),
    },
    Column {
        name: "busbw_GBps",
        doc: "bus bandwidth, 10⁹ bytes per second, by nccl-tests' factors",
        get: |_, record| record.bandwidth().map(|(_, busbw)| busbw.0).into(),
    },
    Column {
        name: "wrong",
        doc: "wrong elements over all ranks, with those that changed beside the buffers or in the \
              send buffer (the note says where); empty if nothing was checked",
        get: |_, record| record.wrong.into(),
    },
    Column {
        name: "status",
        doc: "`ok`, `wrong`, `unchecked`, `computed` (by the model, not measured) or `waived`",
        get: |_, record| record.status.name().into(),
    },
    Column {
        name: "note",
        doc: "an explanation, if one is needed",
        get: |_, record| record.note.as_str().into(),
    },
    Column {
        name: "pxn",
        doc: "with `--proof`: `used` if NCCL's log shows a connection of the case's kind \
              (collective, or send/recv) that leaves through the NIC of another GPU, `not used` \
              if it shows none; empty if the log does not tell",
        get: |_, record| record.seen.pxn.map(pxn_word).into(),
    },
    Column {
        name: "transport",
        doc: "with `--proof`: transports of the connections of the case's kind, joined by `+`; \
              `NET/` and the network's name between nodes",
        get: |_, record| words(&record.seen.transport),
    },
    Column {
        name: "channels",
        doc: "with `--proof`: channels that the communicator has for the case's kind",
        get: |_, record| record.seen.channels.map(u64::from).into(),
    },
    Column {
        name: "algo",
        doc: "with `--proof`: algorithm that NCCL uses; empty for collectives made of sends and \
              receives",
        get: |_, record| words(&record.seen.algo),
    },
    Column {
        name: "proto",
        doc: "with `--proof`: protocol that NCCL uses; empty whenever `algo` is",
        get: |_, record| words(&record.seen.proto),
    },
    Column {
        name: "group",
        doc: "communicator, if `NCCL_TESTS_SPLIT` makes several: each has its own row, except for \
              waived cases; otherwise empty",
        get: |_, record| record.group.map(u64::from).into(),
    },
    Column {
        name: "issue_us",
        doc: "with `-C`: time that process 0 takes to issue one operation to the GPU, in \
              microseconds",
        get: |_, record| record.issue.map(|issue| issue.0).into(),
    },
    Column {
        name: "iter_min_us",
        doc: "with `-I`: the shortest iteration by the GPU's clock, divided by its operations, in \
              microseconds; for each iteration the slowest GPU counts",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.min.0)
                .into()
        },
    },
    Column {
        name: "iter_max_us",
        doc: "with `-I`: the longest iteration",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.max.0)
                .into()
        },
    },
    Column {
        name: "iter_mean_us",
        doc: "with `-I`: their mean",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.mean.0)
                .into()
        },
    },
    Column {
        name: "iter_p50_us",
        doc: "with `-I`: the median iteration",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.p50.0)
                .into()
        },
    },
    Column {
        name: "iter_p95_us",
        doc: "with `-I`: 95th percentile of the iterations",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.p95.0)
                .into()
        },
    },
    Column {
        name: "iter_p99_us",
        doc: "with `-I`: 99th percentile of the iterations",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.p99.0)
                .into()
        },
    },
    Column {
        name: "iter_cv_pct",
        doc: "with `-I`: standard deviation in percent of the mean",
        get: |_, record| {
            record
                .iteration_times
                .as_ref()
                .map(|iteration_times| iteration_times.variation())
                .into()
        },
    },
    Column {
        name: "pattern",
        doc: "of an alltoallv: `spread` and its number, or `matrix`, its rows, and the 64-bit \
              FNV-1a hash of what it sends, scaled and rounded down: row by row, each number as 8 \
              bytes, the lowest first; else empty",
        get: |_, record| words(&record.pattern),
    },
    Column {
        name: "hosts",
        doc: "hosts of the ranks, as Slurm abbreviates a list: `node[01-04]`; empty if times are \
              computed",
        get: |run, record| measured(run, record, |on| &on.hosts),
    },
    Column {
        name: "device",
        doc: "models of the GPUs, or of the processors if the data are in host memory, joined by \
              `+`; empty if times are computed",
        get: |run, record| measured(run, record, |on| &on.device),
    },
    Column {
        name: "nccl_version",
        doc: "version of NCCL; empty if no NCCL ran",
        get: |run, record| measured(run, record, |on| &on.nccl_version),
    },
    Column {
        name: "mpi_version",
        doc: "version of MPI, as it calls itself; empty if no MPI ran",
        get: |run, record| measured(run, record, |on| &on.mpi_version),
    },
    Column {
        name: "rank_p50_us",
        doc: "if more than one rank was timed: the median of the ranks' times of one operation, \
              in microseconds. Percentiles over ranks are by nearest rank: the shortest time that \
              so many of 100 ranks do not exceed",
        get: |_, record| over_ranks(record, |ranks| ranks.p50.0),
    },
    Column {
        name: "rank_p95_us",
        doc: "95 of 100 ranks do not take longer",
        get: |_, record| over_ranks(record, |ranks| ranks.p95.0),
    },
    Column {
        name: "rank_p99_us",
        doc: "99 of 100 ranks do not take longer",
        get: |_, record| over_ranks(record, |ranks| ranks.p99.0),
    },
    Column {
        name: "rank_max_us",
        doc: "the time of the slowest rank",
        get: |_, record| over_ranks(record, |ranks| ranks.max.0),
    },
    Column {
        name: "rank_cv_pct",
        doc: "standard deviation of the ranks' times in percent of their mean",
        get: |_, record| over_ranks(record, |ranks| ranks.variation),
    },
    Column {
        name: "precision_pct",
        doc: "with `--precision`: half of the 95 % interval of the mean time, in percent of it; \
              over all communicators if there are several",
        get: |_, record| record.precision.map(|relative| 100.0 * relative).into(),
    },
    Column {
        name: "blocks",
        doc: "with `--precision`: how often the timed operations (`-n`) were repeated; `iters` \
              counts those of all blocks",
        get: |_, record| record.blocks.map(u64::from).into(),
    },
    Column {
        name: "peak_GBps",
        doc: "the most busbw that the job's links allow, 10⁹ bytes per second; empty if unknown: \
              `run.json` says why, and how it follows from the links",
        get: |_, record| record.peak.map(|peak| peak.0).into(),
    },
    Column {
        name: "pct_peak",
        doc: "busbw in percent of `peak_GBps`; empty if one of them is",
        get: |_, record| record.percent_of_peak().into(),
    },
    Column {
        name: "predicted_us",
        doc: "with `--predict`: time of one operation that NCCL's own model predicts, in \
              microseconds; empty for sends and receives, which it has no model of",
        get: |_, record| record.predicted.map(|time| time.0).into(),
    },
];

/// Returns the word of the column `pxn`.
pub(super) fn pxn_word(is_used: bool) -> &'static str {
    if is_used { "used" } else { "not used" }
}

/// Returns a value of what the case was measured on: by an earlier run, or by this one.
fn measured(run: &RunMeta, record: &Record, value: fn(&MeasuredOn) -> &str) -> Cell {
    match &record.measured_on {
        Some(earlier) => words(value(earlier)),
        None => words(value(&run.measured_on())),
    }
}

/// Returns a value of the distribution over ranks; empty if there is none.
fn over_ranks(record: &Record, value: fn(&RankTimes) -> f64) -> Cell {
    record.rank_times.as_ref().map(value).into()
}

/// Words, or empty where there are none.
fn words(text: &str) -> Cell {
    if text.is_empty() {
        Cell::Empty
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_promised_in_their_order() {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        let promised = "run_id,started_at,collective,backend,level,network,resources,step,repeat,\
                        nodes,ranks,gpus_per_process,size_bytes,count,type,redop,root,in_place,\
                        iters,time_us,algbw_GBps,busbw_GBps,wrong,status,note,pxn,transport,\
                        channels,algo,proto,group,issue_us,iter_min_us,iter_max_us,iter_mean_us,\
                        iter_p50_us,iter_p95_us,iter_p99_us,iter_cv_pct,pattern,hosts,device,\
                        nccl_version,mpi_version,rank_p50_us,rank_p95_us,rank_p99_us,rank_max_us,\
                        rank_cv_pct,precision_pct,blocks,peak_GBps,pct_peak,predicted_us";
        assert_eq!(names.join(","), promised);
    }

    #[test]
    fn numbers_have_six_digits_and_nothing_else() {
        for (value, text) in [
            (12.345_678_9, "12.3457"),
            (0.000_740_123_4, "0.000740123"),
            (141_386.0, "141386"),
        ] {
            assert_eq!(Cell::Number(value).csv(), text);
        }
        assert_eq!(Cell::from(None::<u64>).csv(), "");
    }
}
