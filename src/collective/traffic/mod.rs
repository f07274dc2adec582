//! The traffic of an alltoallv, how much each rank sends to each: nccl-tests' generated pattern, or
//! a matrix.
//!
//! A run reads its pattern before it creates its cases; each case of an alltoallv carries it.

mod pattern;
mod shares;
mod summary;

pub use pattern::{DEFAULT, MATRIX_FILE, MATRIX_SCALE, Matrix, SPREAD, Traffic};
pub use shares::{PeerFlow, TrafficShares};
pub use summary::PRINT_SUMMARY;
pub(super) use summary::lines;
