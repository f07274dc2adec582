//! What is asked before a run that is stuck ends: NCCL's RAS what it knows of the ranks, and the system what threads do.

mod ras;
mod ras_answer;
mod stacks;
mod threads;

use std::path::Path;

use super::context::RunContext;
use crate::record::BackendKind;

/// Arranges that NCCL's RAS is asked if the run is stuck, where NCCL is used; its answer goes to `folder`.
pub(super) fn ask_ras(context: &RunContext, folder: Option<&Path>) {
    if context.backend == BackendKind::Nccl {
        ras::prepare(folder);
    }
}

/// Arranges that what threads do is written to `folder` if the run is stuck, if that is requested. Returns a remark if there is
/// no place for it.
pub(super) fn write_stacks(context: &RunContext, folder: Option<&Path>) -> Option<String> {
    if !context.request.stacks {
        return None;
    }
    let Some(folder) = folder else {
        return Some("--stacks has no effect: this run has no folder of results. Use --out".into());
    };
    stacks::prepare(folder);
    None
}
