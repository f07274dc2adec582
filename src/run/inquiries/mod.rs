//! What is asked before a run that is stuck ends: NCCL's RAS what it knows of the ranks, the rails
//! of a rehearsal what they hold back, and the system what threads do.

mod rails;
mod ras;
mod ras_answer;
mod stacks;
mod threads;

use std::path::Path;

use super::context::RunContext;
use crate::record::BackendKind;

/// Arranges that NCCL's RAS is asked if the run is stuck, and the rails of a rehearsal, where NCCL
/// is used; the answer of RAS goes to `folder`.
pub(super) fn ask_nccl(context: &RunContext, folder: Option<&Path>) {
    if context.backend == BackendKind::Nccl {
        ras::prepare(folder);
        rails::prepare();
    }
}

/// Arranges that what threads do is written to `folder` if the run is stuck, if that is requested.
/// Returns a remark if there is no place for it.
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
