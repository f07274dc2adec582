//! [`ReplayLog`]: what NCCL's log shows of a replay with `--proof`.

use std::path::Path;

use super::{connection_log::ConnectionLog, context::RunContext};
use crate::{
    nccl_log::Connections,
    record::ProofMeta,
    replay::{ReplayProof, StepConnections},
    workload::Step,
    world::{self, World},
};

/// NCCL's log of this process, and the connections that it shows by when they were made.
pub(super) struct ReplayLog {
    log: ConnectionLog,
    own: StepConnections,
    /// All that was read when a collective was last checked.
    seen: Connections,
}

impl ReplayLog {
    /// Begins to read the log, once all communicators of `step` are joined; `None` without
    /// `--proof`, or if no NCCL runs.
    pub(super) fn begin(context: &RunContext, step: &Step) -> Option<ReplayLog> {
        if !context.request.proof || !context.backend.runs_nccl() {
            return None;
        }
        let mut log = ConnectionLog::default();
        let seen = log.own().clone();
        let own = StepConnections {
            joined: seen.clone(),
            ..StepConnections::none(step.communicators.len())
        };
        Some(ReplayLog { log, own, seen })
    }

    /// Notes that what is new was made for the communicator with this index.
    pub(super) fn checked(&mut self, communicator: usize) {
        let now = self.log.own();
        let new = now.since(&self.seen);
        self.seen = now.clone();
        self.own.checked[communicator].add(&new);
    }

    /// Returns what the logs of all ranks show so far. Every rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error if what a rank saw does not reach the others; that would be a bug.
    pub(super) fn proof(&mut self, world: &dyn World) -> anyhow::Result<ReplayProof> {
        self.own.later = self.log.own().since(&self.seen);
        let mut connections = StepConnections::none(self.own.checked.len());
        for of_rank in world::all_gather(world, &self.own)? {
            connections.add(&of_rank);
        }
        Ok(ReplayProof {
            connections,
            is_cut: self.log.cut_rank(world)?.is_some(),
        })
    }

    /// Returns what the logs of all ranks say of PXN as a whole; `folder` is that of the replay.
    /// Every rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error as [`ReplayLog::proof`] does.
    pub(super) fn verdict(
        &mut self,
        folder: &Path,
        world: &dyn World,
    ) -> anyhow::Result<ProofMeta> {
        self.log.verdict(Some(folder), world)
    }
}
