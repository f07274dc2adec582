//! Workloads as TOML files, which people and this program write.
//!
//! `table` declares the tables and keys of a file, `read` checks them and makes a workload, and
//! `write` makes a file of a workload.

mod read;
mod table;
#[cfg(test)]
mod tests;
mod write;
