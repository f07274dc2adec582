//! `--proof`: what NCCL did, from its own log. The connections stand in the log of this process, as far as it is written when
//! a case ends; algorithm and protocol in that of a worker, for the lines that name them would disturb what is timed.

use std::{borrow::Cow, collections::HashMap, path::Path};

use super::{
    args::Args,
    job::RunContext,
    log,
    tuning::{self, Sizes, Worker},
};
use crate::{
    cmd::{choose::BackendKind, log_tail::LogTail},
    collective::Case,
    exit::{Code, Failure},
    nccl_log::{AlgorithmChoice, Connections, Fold, SendCounts},
    record::{NcclEvidence, Record},
    sweep::plan::Plan,
    world::{self, World},
};

/// What is logged while a sweep is timed: nothing of it is printed for an operation, only for a connection.
pub(super) const LOGGED: [(&str, &str); 2] = [
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH"),
];

/// Refuses what cannot be proved.
fn check(args: &Args) -> anyhow::Result<()> {
    match std::env::var("NCCL_DEBUG_FILE") {
        Ok(file) if args.proof && !log::is_ours() => {
            let what = format!(
                "--proof reads NCCL's log, and NCCL_DEBUG_FILE={file} sends it elsewhere: unset it"
            );
            Err(Failure::on_this_rank(Code::Usage, what))
        }
        _ => Ok(()),
    }
}

/// What NCCL's log says, read as it grows. Without `--proof`, and where no NCCL runs, it does nothing.
#[derive(Default)]
pub(super) struct LogProof {
    is_on: bool,
    worker: Option<Worker>,
    log: Option<LogTail>,
    fold: Fold,
    choices: HashMap<Case, AlgorithmChoice>,
}

impl LogProof {
    /// To be called before MPI starts: it starts a worker process.
    ///
    /// # Errors
    /// Where NCCL's log goes elsewhere, or the worker cannot be started.
    pub(super) fn start(args: &Args) -> anyhow::Result<LogProof> {
        check(args)?;
        Ok(LogProof {
            worker: tuning::worker(args)?,
            ..LogProof::default()
        })
    }

    /// Finds out, before the sweep, which algorithms NCCL takes for its cases. The sentence that says why not, where that fails.
    /// Every rank calls it alike.
    ///
    /// # Errors
    /// As [`LogProof::complete`].
    pub(super) fn learn(
        &mut self,
        args: &Args,
        plan: &Plan,
        sizes: Sizes,
        job: &RunContext,
        world: &dyn World,
    ) -> anyhow::Result<Option<String>> {
        self.is_on = args.proof && job.kind == BackendKind::Nccl;
        let worker = self.worker.take();
        if !args.proof {
            return Ok(None);
        }
        if !self.is_on {
            return Ok(Some(
                "--proof reads NCCL's log, and no NCCL runs here: nothing is proved".into(),
            ));
        }
        // A rank decided by its own evidence whether to start one; all take part, or none.
        let missing = world::all_gather(world, &worker.is_none())?
            .into_iter()
            .position(|is_missing| is_missing);
        let (Some(worker), None) = (worker, missing) else {
            let rank = missing.map_or_else(String::new, |rank| {
                format!(": rank {rank} saw no NVIDIA device when it started")
            });
            return Ok(Some(format!(
                "algorithms and protocols cannot be told{rank}"
            )));
        };
        let (choices, untold) = tuning::choices(worker, args, plan, sizes, job, world)?;
        self.choices = choices;
        Ok(untold)
    }

    /// `record` with what the logs of all ranks say of its case. Every rank calls it alike.
    ///
    /// # Errors
    /// Where what a rank saw does not reach the others; that would be a bug.
    pub(super) fn complete<'a>(
        &mut self,
        record: &'a Record,
        world: &dyn World,
    ) -> anyhow::Result<Cow<'a, Record>> {
        if !self.is_on || record.time.is_none() {
            return Ok(Cow::Borrowed(record));
        }
        let seen = self.seen(world)?;
        let mut record = record.clone();
        let is_pairwise = record.case.collective.spec().pairwise;
        if is_pairwise {
            let separator = if record.note.is_empty() { "" } else { "; " };
            record.note += separator;
            record.note += "no algorithm: made of sends and receives";
        }
        record.seen = of_kind(&seen, is_pairwise, self.choices.get(&record.case));
        Ok(Cow::Owned(record))
    }

    /// What the run's log says of PXN as a whole; `None` where there is none.
    ///
    /// # Errors
    /// As [`LogProof::complete`].
    pub(super) fn verdict(
        &mut self,
        folder: Option<&Path>,
        world: &dyn World,
    ) -> anyhow::Result<Option<String>> {
        if !self.is_on {
            return Ok(None);
        }
        let all = self.seen(world)?;
        let mine = self.fold.proof();
        let reasons = world::all_gather(world, &mine.reason.row().meaning.to_owned())?;
        Ok(Some(sentence(&all, &reasons, folder)))
    }

    /// The connections of all ranks so far.
    fn seen(&mut self, world: &dyn World) -> anyhow::Result<Connections> {
        self.read();
        let mut all = Connections::default();
        for one in world::all_gather(world, self.fold.connections())? {
            all.add(&one);
        }
        Ok(all)
    }

    /// Reads what is new. NCCL makes its file when it writes the first line; a log that cannot be read says nothing.
    fn read(&mut self) {
        if self.log.is_none() {
            self.log = LogTail::open(&log::waiting_place()).ok();
        }
        if let Some(log) = &mut self.log {
            let _ = log.lines(&mut |line| self.fold.line(line));
        }
    }
}

/// What `all` says of the connections that a case uses.
fn of_kind(all: &Connections, is_pairwise: bool, choice: Option<&AlgorithmChoice>) -> NcclEvidence {
    let sends = if is_pairwise {
        &all.send_recv
    } else {
        &all.collective
    };
    let channels = all.channels.map(|channels| {
        if is_pairwise {
            channels.send_recv
        } else {
            channels.collective
        }
    });
    let transports = all.transports(is_pairwise);
    NcclEvidence {
        pxn: (!transports.is_empty()).then_some(sends.relayed > 0),
        transport: transports.join("+"),
        channels: channels.and_then(|count| count.try_into().ok()),
        algo: choice
            .map(|choice| choice.algorithm.clone())
            .unwrap_or_default(),
        proto: choice
            .map(|choice| choice.protocol.clone())
            .unwrap_or_default(),
    }
}

/// `PXN used: …` or `PXN not used. …`, and where to read more. `reasons` are what each rank's log says.
fn sentence(all: &Connections, reasons: &[String], folder: Option<&Path>) -> String {
    let kinds = [
        ("send/recv", &all.send_recv),
        ("collectives", &all.collective),
    ];
    let count = |(name, sends): (&str, &SendCounts)| {
        format!(
            "{} of {} connections for {name}",
            sends.relayed, sends.sends
        )
    };
    let counts: Vec<String> = kinds
        .into_iter()
        .filter(|(_, sends)| sends.sends > 0)
        .map(count)
        .collect();
    let counts = counts.join(" and ");
    let more = folder.map_or_else(String::new, |folder| {
        format!(
            " The evidence: pxnbench proof {}",
            folder.join("nccl").display()
        )
    });
    if all.relayed() > 0 {
        return format!("PXN used: {counts} leave through another GPU's NIC.{more}");
    }
    // What most ranks say; the first of them where they are even.
    let often = |reason: &String| reasons.iter().filter(|other| *other == reason).count();
    let most = reasons
        .iter()
        .rev()
        .max_by_key(|reason| often(reason))
        .map_or("", String::as_str);
    let word = if all.by.is_empty() {
        "cannot be told"
    } else {
        "not used"
    };
    let counts = if counts.is_empty() {
        String::new()
    } else {
        format!(" ({counts})")
    };
    format!("PXN {word}{counts}. {most}{more}")
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
        };
        let collective = of_kind(&all, false, Some(&choice));
        let expected = NcclEvidence {
            pxn: Some(false),
            transport: "NET/IB+P2P".into(),
            channels: Some(8),
            algo: "RING".into(),
            proto: "LL".into(),
        };
        assert_eq!(collective, expected);
        let send_recv = of_kind(&all, true, None);
        let expected = NcclEvidence {
            pxn: Some(true),
            transport: "NET/IB".into(),
            channels: Some(16),
            ..NcclEvidence::default()
        };
        assert_eq!(send_recv, expected);
        assert_eq!(
            of_kind(&Connections::default(), true, None),
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
        assert_eq!(
            sentence(&Connections::default(), &reasons[..2], None),
            "PXN cannot be told. A."
        );
    }
}
