//! GPU telemetry: what NVML measures on GPUs while something else runs on them.
//!
//! [`QUANTITIES`] is the only list of what is measured; CSV, JSON, the table of `pxnbench monitor`
//! and `docs/FORMAT.md` are made from it. A [`Probe`] takes one [`Sample`] of each GPU at a time; a
//! [`Sampler`] does so on a thread of its own, and keeps them until they are taken. Rates are
//! differences of counters between two samples, so that the first has none.

mod probe;
mod quantity;
mod sample;
mod sampler;
mod summary;

pub use probe::{Gaps, Probe};
pub use quantity::{Origin, QUANTITIES, Quantity, cells, column_names, sample_columns};
pub use sample::{Sample, SampledGpu, Values};
pub use sampler::{DEFAULT_INTERVAL, SHORTEST_INTERVAL, Sampler};
pub use summary::Summary;
