//! `--proof` and `-U`: what NCCL did, from its own log.
//!
//! The log of this process names the connections that NCCL has made by the time a case ends.
//! Algorithm and protocol come from a worker process, because the lines that name them would
//! disturb what is timed.

use std::{collections::HashMap, path::Path};

use super::{
    connection_log::{ConnectionLog, NOTHING_TO_PROVE, log_is_cut, refuse_other_log_file},
    context::RunContext,
    planning::CutSizes,
    request::Request,
    tuning::{self, Worker},
};
use crate::{
    collective::Case,
    nccl_log::AlgorithmChoice,
    record::{NcclEvidence, ProofMeta, Record, Status},
    sweep::plan::Plan,
    world::{self, World},
};

/// What records get from NCCL's logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reports {
    #[default]
    Nothing,
    /// Algorithms, protocols and channels (`-U`), which need no log of the timed run.
    Tuning,
    /// Connections as well (`--proof`).
    All,
}

/// The reading of NCCL's log as it grows; nothing without `--proof`, or if no NCCL runs.
#[derive(Default)]
pub(super) struct LogProof {
    reports: Reports,
    worker: Option<Worker>,
    log: ConnectionLog,
    choices: HashMap<Case, AlgorithmChoice>,
}

impl LogProof {
    /// Starts a worker process if one is needed. This must be called before MPI starts.
    ///
    /// # Errors
    ///
    /// Returns an error if NCCL's log goes elsewhere, or if the worker cannot be started.
    pub(super) fn start(request: &Request) -> anyhow::Result<LogProof> {
        if request.proof {
            refuse_other_log_file()?;
        }
        Ok(LogProof {
            worker: tuning::worker(request)?,
            ..LogProof::default()
        })
    }

    /// Finds out, before the sweep, which algorithms NCCL uses for its cases. Returns a sentence
    /// that says why not, if that fails. Every rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error if an answer does not reach the other ranks; that would be a bug.
    pub(super) fn learn(
        &mut self,
        context: &RunContext,
        plan: &Plan,
        sizes: CutSizes,
    ) -> anyhow::Result<Option<String>> {
        let worker = self.worker.take();
        let request = context.request;
        if !request.proof && !request.table.tuning {
            return Ok(None);
        }
        if !context.backend.runs_nccl() {
            return Ok(request.proof.then(|| NOTHING_TO_PROVE.into()));
        }
        self.reports = if request.proof {
            Reports::All
        } else {
            Reports::Tuning
        };
        // Each rank decided by its own evidence whether to start a worker; all take part, or none.
        let are_missing = world::all_gather(context.world, &worker.is_none())?;
        let missing = are_missing.into_iter().position(|is_missing| is_missing);
        let (Some(worker), None) = (worker, missing) else {
            let why = missing.map_or_else(String::new, |rank| {
                format!(": rank {rank} saw no NVIDIA device when it started")
            });
            return Ok(Some(format!("algorithms and protocols are unknown{why}")));
        };
        let (choices, unknown) = tuning::choices(worker, context, plan, sizes)?;
        self.choices = choices;
        Ok(unknown)
    }

    /// Returns `record` with what the logs of all ranks say of its case. Every rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error if what a rank saw does not reach the others; that would be a bug.
    pub(super) fn complete(
        &mut self,
        mut record: Record,
        world: &dyn World,
    ) -> anyhow::Result<Record> {
        if self.reports == Reports::Nothing || record.status == Status::Waived {
            return Ok(record);
        }
        if self.reports == Reports::All {
            let seen = self.log.of_all_ranks(world)?;
            let is_pairwise = record.case.collective.spec().pairwise;
            if is_pairwise {
                record.add_note("no algorithm: made of sends and receives");
            }
            record.seen = NcclEvidence::of_connections(&seen.connections, is_pairwise);
            if let Some(rank) = seen.cut
                && record.seen.pxn != Some(true)
            {
                record.seen.pxn = None;
                record.add_note(&log_is_cut(rank));
            }
        }
        set_choice(&mut record.seen, self.choices.get(&record.case));
        Ok(record)
    }

    /// Returns what the run's log says of PXN as a whole; `None` if there is no log.
    ///
    /// # Errors
    ///
    /// Returns an error as [`LogProof::complete`] does.
    pub(super) fn verdict(
        &mut self,
        folder: Option<&Path>,
        world: &dyn World,
    ) -> anyhow::Result<Option<ProofMeta>> {
        if self.reports != Reports::All {
            return Ok(None);
        }
        self.log.verdict(folder, world).map(Some)
    }
}

/// Adds to `evidence` how NCCL ran the operation, if that is known.
fn set_choice(evidence: &mut NcclEvidence, choice: Option<&AlgorithmChoice>) {
    let Some(choice) = choice else { return };
    evidence.algo = choice.algorithm.clone();
    evidence.proto = choice.protocol.clone();
    evidence.operation_channels = choice.channels.and_then(|count| count.try_into().ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        nccl_log::Connections,
        run::connection_log::tests::{LINES, log},
    };

    #[test]
    fn a_case_is_said_to_use_the_connections_of_its_kind() {
        let all = log(&LINES);
        let choice = AlgorithmChoice {
            function: "AllReduce".into(),
            algorithm: "RING".into(),
            protocol: "LL".into(),
            from_bytes: 8,
            to_bytes: 8,
            times: 1,
            channels: Some(2),
        };
        let mut collective = NcclEvidence::of_connections(&all, false);
        set_choice(&mut collective, Some(&choice));
        let expected = NcclEvidence {
            pxn: Some(false),
            transport: "NET/IB+P2P".into(),
            channels: Some(8),
            algo: "RING".into(),
            proto: "LL".into(),
            operation_channels: Some(2),
        };
        assert_eq!(collective, expected);
        let send_recv = NcclEvidence::of_connections(&all, true);
        let expected = NcclEvidence {
            pxn: Some(true),
            transport: "NET/IB".into(),
            channels: Some(16),
            ..NcclEvidence::default()
        };
        assert_eq!(send_recv, expected);
        assert_eq!(
            NcclEvidence::of_connections(&Connections::default(), true),
            NcclEvidence::default(),
            "no log, nothing said"
        );
    }
}
