//! Combinations of settings that crash NCCL, make it fail, keep it from using PXN or have no
//! effect: the table's `[[conflict]]` entries, and values that NCCL does not read as they look.

mod findings;
pub(super) mod rule;

pub use findings::{ConflictFinding, findings};
pub use rule::{Conflict, ConflictContext, Effect};
