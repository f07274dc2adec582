//! Events and records to the terminal and to files. Nothing is measured here, and no backend is
//! known.
//!
//! stdout carries the table and nothing else; messages and progress go to stderr.

mod c_format;
mod column_heads;
pub mod csv;
pub mod earlier;
mod earlier_rows;
pub mod error;
pub mod files;
mod format;
pub mod json;
pub mod kept;
mod kept_records;
pub mod live;
pub mod lock;
pub mod narrow;
pub mod nccl_tests_json;
pub mod notes;
mod output_files;
mod paths;
pub mod progress;
pub mod ranks;
mod row_faults;
mod row_file;
mod row_text;
mod run_locks;
pub mod samples;
mod slow_disk;
pub mod stdout;
pub mod stragglers;
pub mod table;
pub mod target;
pub mod telemetry;
pub mod terminal;
pub mod whole_file;
