//! The results of a run: [`Record`], a measured case, and [`RunMeta`], what it was measured on.
//!
//! [`columns`] is the only list of columns, which every format uses; [`read`] is the only reader of
//! `results.csv` and `run.json`. Derived numbers such as bandwidths are not stored: they follow
//! from the case and the time.

mod backend;
mod case_record;
pub mod columns;
pub mod iteration_stats;
pub mod over_time;
pub mod peak;
mod rank_times;
pub mod read;
mod readable_lines;
mod row_reader;
pub mod run_meta;
pub mod spreadsheet;
mod straggler;
mod telemetry;
mod timestamp;
pub mod totals;

pub use backend::BackendKind;
pub use case_record::{GroupResult, NcclEvidence, Record, Status};
pub use iteration_stats::IterationStats;
pub use over_time::OverTime;
pub use rank_times::{RankTime, RankTimes};
pub use readable_lines::ReadableLines;
pub use row_reader::{RowError, RowReader, ends_with_a_line};
pub use run_meta::{
    Device, FORMAT, FailedProcess, MeasuredOn, MemoryUse, Phase, ProcessMeta, ProofMeta, RunEnd,
    RunMeta, SweepMeta,
};
pub use straggler::{LateNode, LatenessRow, Straggler, StragglerReport};
pub use telemetry::{Extent, GpuSummary, TelemetryMeta};
pub use timestamp::{exact_now, now};
pub use totals::TableTotals;
