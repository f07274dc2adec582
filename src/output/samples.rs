//! `samples.csv`: the throughput of each case, second by second, of a sweep that is repeated for a
//! time.

use std::{io, path::Path};

use super::{
    csv::{header_of, to_csv},
    format::{Content, OutputFormat},
    row_file::{Durability, RowFile},
};
use crate::{
    collective::{BufferMode, Case},
    record::{
        RunMeta,
        columns::{Cell, Column, csv_cells, names},
    },
    units::Micros,
};

/// The format of `samples.csv`. Only a run with `--time` has the file.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: |paths| {
        let path = paths.in_folder("samples.csv")?;
        paths.has_samples.then_some(path)
    },
    follows_links: true,
    content: Content::SampleRows,
};

/// What one case did in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The interval's number, from 0.
    pub interval: u64,
    /// Its length in seconds.
    pub seconds: u64,
    /// The case.
    pub case: Case,
    /// Operations that were timed.
    pub operations: u64,
    /// Time of one operation; `None` if none was timed.
    pub time: Option<Micros>,
    /// Times that the data were wrong.
    pub wrong_cases: u64,
}

impl Sample {
    /// Returns the bus bandwidth in GB/s; `None` if no operation was timed.
    pub fn busbw(&self) -> Option<f64> {
        let (_, busbw) = self.case.bandwidth(self.time?);
        Some(busbw.0)
    }
}

/// A column of `samples.csv`.
type ThroughputColumn = Column<RunMeta, Sample>;

/// The columns, in order.
pub const THROUGHPUT_COLUMNS: &[ThroughputColumn] = &[
    ThroughputColumn {
        name: "run_id",
        doc: "as in `results.csv`, like the other columns of the case",
        get: |run, _| run.run_id.as_str().into(),
    },
    ThroughputColumn {
        name: "elapsed_s",
        doc: "end of the second, in seconds since the first case began",
        get: |_, sample| ((sample.interval + 1) * sample.seconds).into(),
    },
    ThroughputColumn {
        name: "collective",
        doc: "collective",
        get: |_, sample| sample.case.collective.name().into(),
    },
    ThroughputColumn {
        name: "size_bytes",
        doc: "size",
        get: |_, sample| sample.case.size().0.into(),
    },
    ThroughputColumn {
        name: "type",
        doc: "element type",
        get: |_, sample| sample.case.dtype.name().into(),
    },
    ThroughputColumn {
        name: "redop",
        doc: "reduction",
        get: |_, sample| sample.case.redop_name().into(),
    },
    ThroughputColumn {
        name: "root",
        doc: "root rank",
        get: |_, sample| Cell::Integer(sample.case.root_number()),
    },
    ThroughputColumn {
        name: "in_place",
        doc: "1 or 0",
        get: |_, sample| Cell::Integer((sample.case.buffer_mode == BufferMode::InPlace).into()),
    },
    ThroughputColumn {
        name: "operations",
        doc: "timed operations of the case that ended in the second",
        get: |_, sample| sample.operations.into(),
    },
    ThroughputColumn {
        name: "time_us",
        doc: "mean time of one of them in microseconds; empty if there is none",
        get: |_, sample| sample.time.map(|time| time.0).into(),
    },
    ThroughputColumn {
        name: "busbw_GBps",
        doc: "bus bandwidth of that time, 10⁹ bytes per second",
        get: |_, sample| sample.busbw().into(),
    },
    ThroughputColumn {
        name: "wrong_cases",
        doc: "times that the case ended with wrong data in the second",
        get: |_, sample| sample.wrong_cases.into(),
    },
];

/// Creates `samples.csv`.
///
/// # Errors
/// Returns an error if it cannot be written.
pub(super) fn create(path: &Path) -> io::Result<RowFile> {
    let header = header_of(&names(THROUGHPUT_COLUMNS));
    RowFile::create(path, header, Durability::AtTheEnd)
}

/// Returns the rows of samples.
pub(super) fn rows(run: &RunMeta, samples: &[Sample]) -> String {
    let rows: Vec<Vec<String>> = samples
        .iter()
        .map(|sample| csv_cells(THROUGHPUT_COLUMNS, run, sample))
        .collect();
    to_csv(&rows)
}
