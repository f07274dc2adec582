//! What a workload may have at most.

use crate::units::{Bytes, Micros};

/// The most operations of a workload.
pub(super) const MOST_OPERATIONS: usize = 100_000;

/// The most streams of a workload.
pub(super) const MOST_STREAMS: usize = 64;

/// The longest computation: an hour.
pub(super) const MOST_TIME: Micros = Micros(3.6e9);

/// The most bytes of a collective or of copies: 1 PiB, so that no sum of elements overflows.
pub(super) const MOST_BYTES: Bytes = Bytes(1 << 50);

/// The most copies of an operation.
pub(super) const MOST_PIECES: u32 = 100_000;
