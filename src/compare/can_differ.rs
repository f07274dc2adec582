//! Whether what is compared can differ at all.

use super::{case_key::CaseKey, conditions::Conditions, dimension::Dimension};
use crate::{collective::Collective, levels, record::BackendKind};

/// The levels that differ from each other in `NCCL_P2P_PXN_LEVEL` only, which NCCL reads for send
/// and receive.
const GRADED: [&str; 3] = ["conservative", "balanced", "aggressive"];

/// Returns a sentence if nothing on this dimension can differ from another under these conditions.
pub(super) fn anything_can_differ(
    dimension: Dimension,
    conditions: &Conditions,
) -> Result<(), String> {
    let several = dimension.several();
    match conditions.backend {
        BackendKind::Host if is_of_nccl(dimension) => Err(format!(
            "These are times of MPI on host memory, where no NCCL runs: the {several} cannot \
             differ here, and what differs is noise."
        )),
        BackendKind::Model if dimension != Dimension::Nodes => Err(format!(
            "These times are computed: the {several} cannot differ here."
        )),
        BackendKind::Nccl if dimension == Dimension::Level && conditions.nodes < 2 => Err(
            "PXN is impossible on one node: the levels cannot differ here, and what differs is \
             noise."
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Returns whether only NCCL and GPUs can make a difference on this dimension.
fn is_of_nccl(dimension: Dimension) -> bool {
    matches!(
        dimension,
        Dimension::Level
            | Dimension::Network
            | Dimension::Resources
            | Dimension::Nccl
            | Dimension::Driver
    )
}

/// Returns whether `label` and `reference` can differ in the case `key`, where something can.
pub(super) fn can_differ(
    dimension: Dimension,
    key: &CaseKey,
    label: &str,
    reference: &str,
) -> bool {
    if dimension != Dimension::Level {
        return true;
    }
    let is_same_level = label == reference && label != levels::CUSTOM;
    let are_graded = GRADED.contains(&label) && GRADED.contains(&reference);
    // A training step may send and receive.
    let sends = key.is_of_step() || Collective::pairwise_names().contains(&key.collective);
    let has_effect = !are_graded || sends;
    !is_same_level && has_effect
}
