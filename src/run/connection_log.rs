//! [`ConnectionLog`]: the connections that NCCL's log shows while the ranks run.

use std::path::Path;

use super::log;
use crate::{
    env,
    exit::{Code, Failure},
    nccl_log::{Connections, Fold, SendCounts, tail::LogTail},
    record::ProofMeta,
    world::{self, World, scratch},
};

/// Said if `--proof` can have no effect.
pub(super) const NOTHING_TO_PROVE: &str =
    "--proof needs NCCL's log, but no NCCL runs here: nothing can be proved";

/// NCCL's log of this process, read as it grows.
#[derive(Default)]
pub(super) struct ConnectionLog {
    log: Option<LogTail>,
    /// Whether the disk of the log was full at some moment, so that lines may be missing.
    is_cut: bool,
    fold: Fold,
}

/// The connections of all ranks.
pub(super) struct AllConnections {
    pub(super) connections: Connections,
    /// The first rank whose log may lack lines.
    pub(super) cut: Option<usize>,
}

impl ConnectionLog {
    /// Returns the connections of this process so far.
    pub(super) fn own(&mut self) -> &Connections {
        self.read_new_lines();
        self.is_cut |= scratch::is_full();
        self.fold.connections()
    }

    /// Returns the first rank whose log may lack lines of what [`ConnectionLog::own`] has read.
    /// Every rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error if what a rank saw does not reach the others; that would be a bug.
    pub(super) fn cut_rank(&self, world: &dyn World) -> anyhow::Result<Option<usize>> {
        let are_cut = world::all_gather(world, &self.is_cut)?;
        Ok(are_cut.into_iter().position(|is_cut| is_cut))
    }

    /// Returns the connections of all ranks so far. Every rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error as [`ConnectionLog::cut_rank`] does.
    pub(super) fn of_all_ranks(&mut self, world: &dyn World) -> anyhow::Result<AllConnections> {
        let mut connections = Connections::default();
        for of_rank in world::all_gather(world, self.own())? {
            connections.add(&of_rank);
        }
        Ok(AllConnections {
            connections,
            cut: self.cut_rank(world)?,
        })
    }

    /// Returns what the logs of all ranks say of PXN as a whole; `folder` is that of the run. Every
    /// rank calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error as [`ConnectionLog::cut_rank`] does.
    pub(super) fn verdict(
        &mut self,
        folder: Option<&Path>,
        world: &dyn World,
    ) -> anyhow::Result<ProofMeta> {
        let all = self.of_all_ranks(world)?;
        let own = self.fold.proof().reason_of_one_rank().to_owned();
        let reasons = world::all_gather(world, &own)?;
        let pxn_used = uses_pxn(&all.connections);
        if let Some(rank) = all.cut
            && pxn_used != Some(true)
        {
            let why = log_is_cut(rank);
            return Ok(ProofMeta {
                pxn_used: None,
                verdict: format!("PXN use unknown: {why}. Set TMPDIR to a folder with more room"),
            });
        }
        Ok(ProofMeta {
            pxn_used,
            verdict: sentence(&all.connections, &reasons, folder),
        })
    }

    /// Reads what is new. NCCL creates its file when it writes the first line; a log that cannot be
    /// read says nothing.
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
pub(super) fn log_is_cut(rank: usize) -> String {
    format!("the disk of NCCL's log of rank {rank} is full, so lines of it may be missing")
}

/// Refuses `--proof` if the user sends NCCL's log elsewhere.
///
/// # Errors
///
/// Returns an error if that is so.
pub(super) fn refuse_other_log_file() -> anyhow::Result<()> {
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

/// Returns whether PXN is used; `None` if the log shows no connection, and so does not tell.
fn uses_pxn(all: &Connections) -> Option<bool> {
    match all.relayed() {
        0 if all.by.is_empty() => None,
        relayed => Some(relayed > 0),
    }
}

/// Returns `PXN used: …`, `PXN not used …` or `PXN use unknown …`, and where to read more.
/// `reasons` are what each rank's log says.
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

/// Returns the reason that most ranks give, the first of them if there is a tie. Ranks that give
/// none do not count.
fn most_frequent(reasons: &[String]) -> &str {
    let frequency = |reason: &&String| reasons.iter().filter(|other| other == reason).count();
    let given = reasons.iter().rev().filter(|reason| !reason.is_empty());
    let most = given.max_by_key(frequency);
    most.map_or("No connection leaves its node.", String::as_str)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns what `lines` show.
    pub(in crate::run) fn log(lines: &[&str]) -> Connections {
        Connections::read(
            lines
                .iter()
                .map(|line| format!("h:1:1 [0] NCCL INFO {line}\n"))
                .collect::<String>()
                .as_bytes(),
        )
    }

    /// Connections of both kinds of traffic.
    pub(in crate::run) const LINES: [&str; 4] = [
        "8 coll channels, 8 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels \
         per peer",
        "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM",
        "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/1/GDRDMA",
        "Channel 00/1 : 1[1] -> 2[0] [send] via NET/IB/0(0)/GDRDMA",
    ];

    #[test]
    fn the_verdict_counts_and_gives_the_reason_of_most_ranks() {
        let reasons = ["A.".to_owned(), "B.".into(), "B.".into()];
        assert_eq!(
            sentence(&log(&LINES), &reasons, None),
            "PXN used: 1 of 1 connections for send/recv and 0 of 1 connections for collectives \
             leave through another GPU's NIC."
        );
        assert_eq!(
            sentence(&log(&LINES[..3]), &reasons, Some(Path::new("r"))),
            "PXN not used (0 of 1 connections for collectives). B. The evidence: pxnbench proof \
             r/nccl"
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
