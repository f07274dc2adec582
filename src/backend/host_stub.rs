//! What stands in for host memory in a binary that is built without MPI.

use super::{Backend, Waived, options::ExecOptions};
use crate::{
    collective::Case,
    exit::{Code, Failure},
    units::Bytes,
};

/// Fails on every rank alike.
///
/// # Errors
/// Always returns an error.
pub fn open(
    _: u64,
    _: Option<u32>,
    _: Option<Bytes>,
    _: ExecOptions,
) -> anyhow::Result<Box<dyn Backend>> {
    Err(Failure::on_all_ranks(
        Code::Usage,
        "host memory needs MPI, and this binary is built without it. Build it with the feature mpi, or use --backend model",
    ))
}

/// Waives every case.
///
/// # Errors
/// Always returns the reason.
pub fn supports(_: &Case) -> Result<(), Waived> {
    Err(Waived(
        "host memory needs MPI, and this binary is built without it".into(),
    ))
}
