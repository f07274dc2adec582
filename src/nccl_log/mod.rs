//! What NCCL's own log says it did. Bytes in, values out.
//!
//! [`mod@line`] understands one line, [`Fold`] adds lines up in constant memory, [`Proof`] is what comes out: connections, who
//! relayed through whom, and whether PXN was used or why not ([`reason`]).

pub mod line;

mod fold;
mod proof;
pub mod reason;
pub mod tail;
#[cfg(test)]
mod tests;

pub use fold::{Connections, Fold, SendCounts};
pub use proof::{AlgorithmChoice, GpuDirect, LineCounts, Proof, RelayUse, Rings};
pub use reason::{PxnVerdict, Reason};
