//! Workloads as files: TOML that people write, and that is written again.
//!
//! `table` has the form of a file, `read` what must hold of it, `write` the way back.

mod read;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub(super) use read::{MOST_OPERATIONS, MOST_STREAMS, MOST_TIME};
