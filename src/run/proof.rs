//! `--proof` and `-U`: what NCCL did, from its own log.
//!
//! The log of this process names the connections that NCCL has made by the time a case ends. Algorithm and protocol come
//! from a worker process, because the lines that name them would disturb what is timed.

use std::{collections::HashMap, path::Path};

use super::{
    context::RunContext,
    log,
    planning::CutSizes,
    request::Request,
    tuning::{self, Worker},
};
use crate::{
    collective::Case,
    env,
    exit::{Code, Failure},
    nccl_log::{AlgorithmChoice, Connections, Fold, SendCounts, tail::LogTail},
    record::{NcclEvidence, ProofMeta, Record, Status},
    sweep::plan::Plan,
    world::{self, World, scratch},
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
    log: Option<LogTail>,
    /// Whether the disk of the log was full at some moment, so that lines may be missing.
    is_cut: bool,
    fold: Fold,
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

    /// Finds out, before the sweep, which algorithms NCCL uses for its cases. Returns a sentence that says why not, if that
    /// fails. Every rank calls it alike.
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
            let why = "--proof needs NCCL's log, but no NCCL runs here: nothing can be proved";
            return Ok(request.proof.then(|| why.into()));
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
            let (seen, cut) = self.connections(world)?;
            let is_pairwise = record.case.collective.spec().pairwise;
            if is_pairwise {
                record.add_note("no algorithm: made of sends and receives");
            }
            record.seen = evidence(&seen, is_pairwise);
            if let Some(rank) = cut
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
        let (all, cut) = self.connections(world)?;
        let own = self.fold.proof().reason_of_one_rank().to_owned();
        let reasons = world::all_gather(world, &own)?;
        if let Some(rank) = cut
            && uses_pxn(&all) != Some(true)
        {
            let why = log_is_cut(rank);
            return Ok(Some(ProofMeta {
                pxn_used: None,
                verdict: format!("PXN use unknown: {why}. Set TMPDIR to a folder with more room"),
            }));
        }
        Ok(Some(ProofMeta {
            pxn_used: uses_pxn(&all),
            verdict: sentence(&all, &reasons, folder),
        }))
    }

    /// Returns the connections of all ranks so far, and the first rank whose log may lack lines.
    fn connections(&mut self, world: &dyn World) -> anyhow::Result<(Connections, Option<usize>)> {
        self.read_new_lines();
        self.is_cut |= scratch::is_full();
        let mut all = Connections::default();
        for of_rank in world::all_gather(world, self.fold.connections())? {
            all.add(&of_rank);
        }
        let are_cut = world::all_gather(world, &self.is_cut)?;
        Ok((all, are_cut.into_iter().position(|is_cut| is_cut)))
    }

    /// Reads what is new. NCCL creates its file when it writes the first line; a log that cannot be read says nothing.
    fn read_new_lines(&mut self) {
        if self.log.is_none() {
            self.log = log::waiting_place().and_then(|file| LogTail::open(&file).ok());
        }
        if let Some(log) = &mut self.log {
            let _ = log.lines(&mut |line| self.fold.line(line));
        }
    }
}

/// Returns that lines may be missing in the log of `rank`.
fn log_is_cut(rank: usize) -> String {
    format!("the disk of NCCL's log of rank {rank} is full, so lines of it may be missing")
}

fn refuse_other_log_file() -> anyhow::Result<()> {
    match env::var("NCCL_DEBUG_FILE") {
        Some(file) if !log::is_ours() => {
            let what = format!(
                "--proof reads NCCL's log, and NCCL_DEBUG_FILE={file} sends it elsewhere. Unset it"
            );
            Err(Failure::on_this_rank(Code::Usage, what))
        }
        _ => Ok(()),
    }
}

/// Returns what `all` says of the connections that a case uses, those for send/recv if it `is_pairwise`.
fn evidence(all: &Connections, is_pairwise: bool) -> NcclEvidence {
    let (sends, channels) = if is_pairwise {
        let channels = all.channels.map(|channels| channels.send_recv);
        (&all.send_recv, channels)
    } else {
        let channels = all.channels.map(|channels| channels.collective);
        (&all.collective, channels)
    };
    let transports = all.transports(is_pairwise);
    NcclEvidence {
        pxn: (!transports.is_empty()).then_some(sends.relayed > 0),
        transport: transports.join("+"),
        channels: channels.and_then(|count| count.try_into().ok()),
        ..NcclEvidence::default()
    }
}

/// Adds to `evidence` how NCCL ran the operation, if that is known.
fn set_choice(evidence: &mut NcclEvidence, choice: Option<&AlgorithmChoice>) {
    let Some(choice) = choice else { return };
    evidence.algo = choice.algorithm.clone();
    evidence.proto = choice.protocol.clone();
    evidence.operation_channels = choice.channels.and_then(|count| count.try_into().ok());
}

/// Returns whether PXN is used; `None` if the log shows no connection, and so does not tell.
fn uses_pxn(all: &Connections) -> Option<bool> {
    match all.relayed() {
        0 if all.by.is_empty() => None,
        relayed => Some(relayed > 0),
    }
}

/// Returns `PXN used: …`, `PXN not used …` or `PXN use unknown …`, and where to read more. `reasons` are what each rank's
/// log says.
fn sentence(all: &Connections, reasons: &[String], folder: Option<&Path>) -> String {
    let counts = counts(all);
    let more = folder.map_or_else(String::new, |folder| {
        let logs = folder.join("nccl");
        format!(" The evidence: pxnbench proof {}", logs.display())
    });
    let verdict = match uses_pxn(all) {
        Some(true) => {
            return format!("PXN used: {counts} leave through another GPU's NIC.{more}");
        }
        Some(false) => "PXN not used",
        None => "PXN use unknown",
    };
    let in_parentheses = if counts.is_empty() {
        String::new()
    } else {
        format!(" ({counts})")
    };
    let reason = most_frequent(reasons);
    format!("{verdict}{in_parentheses}. {reason}{more}")
}

fn counts(all: &Connections) -> String {
    let mut counts = Vec::new();
    for (name, sends) in [
        ("send/recv", &all.send_recv),
        ("collectives", &all.collective),
    ] {
        let SendCounts { relayed, sends, .. } = sends;
        if *sends > 0 {
            counts.push(format!("{relayed} of {sends} connections for {name}"));
        }
    }
    counts.join(" and ")
}

/// Returns the reason that most ranks give, the first of them if there is a tie. Ranks that give none do not count.
fn most_frequent(reasons: &[String]) -> &str {
    let frequency = |reason: &&String| reasons.iter().filter(|other| other == reason).count();
    let given = reasons.iter().rev().filter(|reason| !reason.is_empty());
    let most = given.max_by_key(frequency);
    most.map_or("No connection leaves its node.", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Connections {
        Connections::read(
            lines
                .iter()
                .map(|line| format!("h:1:1 [0] NCCL INFO {line}\n"))
                .collect::<String>()
                .as_bytes(),
        )
    }

    const LINES: [&str; 4] = [
        "8 coll channels, 8 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM",
        "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/1/GDRDMA",
        "Channel 00/1 : 1[1] -> 2[0] [send] via NET/IB/0(0)/GDRDMA",
    ];

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
        let mut collective = evidence(&all, false);
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
        let send_recv = evidence(&all, true);
        let expected = NcclEvidence {
            pxn: Some(true),
            transport: "NET/IB".into(),
            channels: Some(16),
            ..NcclEvidence::default()
        };
        assert_eq!(send_recv, expected);
        assert_eq!(
            evidence(&Connections::default(), true),
            NcclEvidence::default(),
            "no log, nothing said"
        );
    }

    #[test]
    fn the_verdict_counts_and_gives_the_reason_of_most_ranks() {
        let reasons = ["A.".to_owned(), "B.".into(), "B.".into()];
        assert_eq!(
            sentence(&log(&LINES), &reasons, None),
            "PXN used: 1 of 1 connections for send/recv and 0 of 1 connections for collectives leave through another \
             GPU's NIC."
        );
        assert_eq!(
            sentence(&log(&LINES[..3]), &reasons, Some(Path::new("r"))),
            "PXN not used (0 of 1 connections for collectives). B. The evidence: pxnbench proof r/nccl"
        );
        assert_eq!(uses_pxn(&log(&LINES)), Some(true));
        assert_eq!(uses_pxn(&log(&LINES[..2])), Some(false));
        assert_eq!(uses_pxn(&Connections::default()), None);
        assert_eq!(
            sentence(&Connections::default(), &reasons[..2], None),
            "PXN use unknown. A."
        );
        let silent = [String::new(), String::new(), "B.".into()];
        assert_eq!(
            sentence(&log(&LINES[..2]), &silent, None),
            "PXN not used. B."
        );
        assert_eq!(
            sentence(&log(&LINES[..2]), &silent[..2], None),
            "PXN not used. No connection leaves its node."
        );
    }
}
