//! Reads `results.csv` and `run.json`: the rows as [`CsvRow`]s, the run as
//! [`RunMeta`](super::RunMeta).
//!
//! Columns are found by their names, so that files of other versions can be read; derived numbers
//! are not read back into a [`Record`](super::Record), because they follow from the case and the
//! time.

mod cells;
mod csv_row;
mod row_view;
mod runs;
#[cfg(test)]
mod tests;
mod text;

pub use cells::{MOST_RANKS, finite, number_of_ranks};
pub use csv_row::{CsvRow, parse_row, parse_rows};
pub use row_view::RowView;
pub use runs::{named_twice, read_run, read_run_json};
pub use text::{has_own_header, whole_lines};
