//! The heads of the columns that the full table and the narrow one share.

use crate::record::SweepMeta;

/// The head of a column, and the width of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnHead {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) width: usize,
}

const fn column(name: &'static str, unit: &'static str, width: usize) -> ColumnHead {
    ColumnHead { name, unit, width }
}

const TIME: ColumnHead = column("time", "(us)", 7);
const CPU_TIME: ColumnHead = column("cputime", "(us)", 7);
const RESULTS: [ColumnHead; 3] = [
    column("algbw", "(GB/s)", 6),
    column("busbw", "(GB/s)", 6),
    column("#wrong", "", 6),
];

/// The columns of the single iterations of one buffer mode.
const ITERATIONS: [ColumnHead; 4] = [
    column("i_min", "(us)", 7),
    column("i_max", "(us)", 7),
    column("i_p99", "(us)", 7),
    column("i_cv%", "(%)", 7),
];

/// The columns that say how NCCL ran a case (`-U`).
pub(super) const TUNING: [ColumnHead; 3] = [
    column("algo", "", 14),
    column("proto", "", 6),
    column("nchannels", "", 9),
];

/// The columns that describe a case.
pub(super) const CASE: [ColumnHead; 5] = [
    column("size", "(B)", 12),
    column("count", "(elements)", 12),
    column("type", "", 8),
    column("redop", "", 6),
    column("root", "", 6),
];

/// Returns all columns of a row.
pub(super) fn of_row(sweep: &SweepMeta) -> Vec<ColumnHead> {
    let mut columns = CASE.to_vec();
    columns.extend(of_buffer_mode(sweep).repeat(2));
    if sweep.tuning {
        columns.extend(TUNING);
    }
    columns
}

/// Returns the columns of one buffer mode.
pub(super) fn of_buffer_mode(sweep: &SweepMeta) -> Vec<ColumnHead> {
    let mut columns = vec![if sweep.reports_issue { CPU_TIME } else { TIME }];
    columns.extend(RESULTS);
    if sweep.per_iter {
        columns.extend(ITERATIONS);
    }
    columns
}
