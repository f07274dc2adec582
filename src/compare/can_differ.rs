//! Whether two levels can differ at all.

use super::key::Conditions;
use crate::{collective::Collective, levels, record::BackendKind};

/// The levels that differ from each other in `NCCL_P2P_PXN_LEVEL` only, which NCCL reads for send and receive.
const GRADED: [&str; 3] = ["conservative", "balanced", "aggressive"];

/// Returns a sentence if no level can differ from another under these conditions.
pub(super) fn anything_can_differ(conditions: &Conditions) -> Result<(), &'static str> {
    match conditions.backend {
        BackendKind::Host => Err(
            "These are times of MPI on host memory, where no NCCL runs: the levels cannot differ here, and what differs is \
             noise.",
        ),
        BackendKind::Model => Err("These times are computed: the levels cannot differ here."),
        BackendKind::Nccl if conditions.nodes < 2 => Err(
            "PXN is impossible on one node: the levels cannot differ here, and what differs is noise.",
        ),
        BackendKind::Nccl => Ok(()),
    }
}

/// Returns whether `level` and `reference` can differ in `collective`.
pub(super) fn can_differ(
    conditions: &Conditions,
    collective: &str,
    level: &str,
    reference: &str,
) -> bool {
    let is_same_level = level == reference && level != levels::CUSTOM;
    let are_graded = GRADED.contains(&level) && GRADED.contains(&reference);
    let has_effect = !are_graded || Collective::pairwise_names().contains(&collective);
    anything_can_differ(conditions).is_ok() && !is_same_level && has_effect
}
