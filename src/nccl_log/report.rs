//! A proof as text.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
};

use super::{
    algorithms::AlgorithmChoice,
    communicator_table::communicator_table,
    connections::SendCounts,
    proof::Proof,
    reason::Reason,
    relays::RelayUse,
    subsystems::how_to_log,
    verdict::{TrafficVerdict, TrafficVerdicts},
};
use crate::units::{Bytes, counted};

/// Relays that the text names; JSON has all.
const RELAYS: usize = 16;
/// Algorithms that the text names.
const CHOICES: usize = 16;

/// Writes `proof` as the report that `pxnbench proof` prints.
pub fn text(proof: &Proof) -> String {
    let mut report = Report(format!("PXN: {}\n", proof.verdict.label()));
    add_reasons(&mut report, proof);
    report.line("traffic", traffic(&proof.traffic));
    add_connections(&mut report, proof);
    add_job(&mut report, proof);
    report.0 += &communicator_table(&proof.communicator_groups);
    report.quotes("evidence", &proof.evidence);
    report.quotes("not understood or torn, for example", &proof.not_understood);
    report.0
}

/// The text so far.
struct Report(String);

impl Report {
    /// Adds a line with a title, unless there is nothing to tell.
    fn line(&mut self, title: &str, what: impl Display) {
        add_line(&mut self.0, title, what);
    }

    /// Adds quoted lines below a title.
    fn quotes(&mut self, title: &str, lines: &[String]) {
        if !lines.is_empty() {
            let _ = writeln!(self.0, "{title}:");
        }
        for line in lines {
            let _ = writeln!(self.0, "  {}", without_controls(line));
        }
    }
}

fn add_reasons(report: &mut Report, proof: &Proof) {
    let reason = proof.reason.info();
    report.line("why", reason.meaning);
    for also in &proof.also {
        report.line("", format_args!("Also: {}", also.info().meaning));
    }
    if proof.reason != Reason::Relayed {
        report.line("what to do", reason.remedies_for(&proof.settings));
    }
    let lacks_lines = matches!(
        proof.reason,
        Reason::TooQuiet | Reason::NoInit | Reason::NoGraph
    );
    if lacks_lines {
        report.line("how to log", how_to_log());
    }
}

fn add_connections(report: &mut Report, proof: &Proof) {
    report.line("send/recv", sends(&proof.send_recv, proof.send_recv_reason));
    report.line(
        "collectives",
        sends(&proof.collective, proof.collective_reason),
    );
    report.line("unsorted", sends(&proof.unsorted, None));
    report.line("relays", relays(&proof.relays));
    report.line("GPUDirect", gpudirect(proof));
    report.line("transports", transports(&proof.transports));
}

fn add_job(report: &mut Report, proof: &Proof) {
    report.line("job", participants(proof));
    report.line("NCCL", versions(proof));
    report.line("channels", channels(proof));
    report.line("rings", rings(proof));
    report.line("algorithms", algorithms(&proof.algorithms));
    report.line("warnings", warnings(proof));
    match proof.segmentation_faults {
        0 => {}
        1 => report.line("crashes", "1 line reports a segmentation fault"),
        lines => report.line(
            "crashes",
            format_args!("{lines} lines report a segmentation fault"),
        ),
    }
    report.line("lines", lines(proof));
}

/// Returns the verdicts on each kind of traffic.
fn traffic(verdicts: &TrafficVerdicts) -> String {
    let mut text = format!(
        "rings {}, trees {}, ",
        verdicts.rings.label(),
        verdicts.trees.label()
    );
    if verdicts.rings_or_trees != TrafficVerdict::NotInLog {
        let _ = write!(text, "rings or trees {}, ", verdicts.rings_or_trees.label());
    }
    text + "send/recv " + verdicts.send_recv.label()
}

fn sends(counts: &SendCounts, reason: Option<Reason>) -> String {
    if counts.sends == 0 {
        return String::new();
    }
    let mut text = format!(
        "{} of {} send connections relayed",
        counts.relayed, counts.sends
    );
    if let Some(reason) = reason {
        let _ = write!(text, " ({})", reason.info().name);
    }
    text
}

fn relays(relays: &[RelayUse]) -> String {
    let mut parts = Vec::new();
    for relay in relays.iter().take(RELAYS) {
        parts.push(format!(
            "{} by rank {} on {} through {}",
            relay.send_recv + relay.collective,
            relay.rank,
            or_unknown(&relay.host),
            relay.nic
        ));
    }
    if relays.len() > RELAYS {
        let more = relays.len() - RELAYS;
        parts.push(format!("{more} more relays (--json has them)"));
    }
    parts.join("; ")
}

fn gpudirect(proof: &Proof) -> String {
    let ends = &proof.gpudirect;
    if ends.of_sends + ends.of_receives == 0 {
        return String::new();
    }
    format!(
        "{} of {} sending ends, {} of {} receiving ends",
        ends.sends, ends.of_sends, ends.receives, ends.of_receives
    )
}

fn transports(counts: &BTreeMap<String, u64>) -> String {
    let mut parts = Vec::new();
    for (name, count) in counts {
        parts.push(format!("{name} {count}"));
    }
    parts.join(", ")
}

fn participants(proof: &Proof) -> String {
    let mut parts = Vec::new();
    if let Some(ranks) = proof.ranks {
        parts.push(counted(ranks, "rank"));
    }
    if let Some(nodes) = proof.nodes {
        parts.push(counted(nodes, "node"));
    }
    if proof.ranks.is_some_and(|ranks| proof.ranks_in_log < ranks) {
        let in_log = proof.ranks_in_log;
        parts.push(format!(
            "{in_log} of the ranks in this log, and the counts cover only those"
        ));
    }
    if proof.processes > 0 {
        let processes = counted(proof.processes, "process");
        parts.push(format!("{processes} in this log"));
    }
    if proof.unfinished_processes > 0 {
        let unfinished = proof.unfinished_processes;
        parts.push(format!("{unfinished} of them not ready when it ends"));
    }
    if proof.communicators > 1 {
        let communicators = proof.communicators;
        parts.push(format!(
            "{communicators} communicators, each with rank numbers of its own"
        ));
    }
    parts.join(", ")
}

fn versions(proof: &Proof) -> String {
    let mut parts = proof.versions.clone();
    if !proof.networks.is_empty() {
        parts.push(format!("network {}", proof.networks.join(", ")));
    }
    if !proof.plugins.is_empty() {
        parts.push(format!("plugin {}", proof.plugins.join(", ")));
    }
    parts.join(", ")
}

fn channels(proof: &Proof) -> String {
    let Some(channels) = proof.channels else {
        return String::new();
    };
    format!(
        "{} for collectives, {} for send/recv ({} with one peer), {} for NVLink SHARP",
        channels.collective, channels.send_recv, channels.send_recv_per_peer, channels.nvls
    )
}

fn rings(proof: &Proof) -> String {
    let rings = &proof.rings;
    let mut parts = Vec::new();
    if rings.connected > 0 {
        let mut part = format!("rings connected {}", times(rings.connected));
        let known = rings.with_numbers;
        if known > 0 {
            let _ = write!(
                part,
                " (PXN in {} of {known}, GPUDirect in {} of {known})",
                rings.pxn, rings.gpudirect
            );
        }
        parts.push(part);
    }
    if proof.trees > 0 {
        parts.push(format!("trees connected {}", times(proof.trees)));
    }
    parts.join(", ")
}

fn times(number: u64) -> String {
    counted(number, "time")
}

fn algorithms(choices: &[AlgorithmChoice]) -> String {
    let mut parts: Vec<String> = choices.iter().take(CHOICES).map(algorithm).collect();
    if choices.len() > CHOICES {
        let more = choices.len() - CHOICES;
        parts.push(format!("{more} more (--json has them)"));
    }
    parts.join("; ")
}

fn algorithm(choice: &AlgorithmChoice) -> String {
    let function = or_unknown(&choice.function);
    let from = Bytes(choice.from_bytes);
    let to = Bytes(choice.to_bytes);
    let mut text = format!("{function} {} {} {from}", choice.algorithm, choice.protocol);
    if from != to {
        let _ = write!(text, " to {to}");
    }
    text
}

fn or_unknown(name: &str) -> &str {
    if name.is_empty() { "?" } else { name }
}

fn warnings(proof: &Proof) -> String {
    match &proof.first_warning {
        Some(first) => format!("{}; the first: {}", proof.warnings, without_controls(first)),
        None => String::new(),
    }
}

/// Replaces control characters, which a terminal would obey.
/// Adds a line with a title to `text`, unless there is nothing to tell.
pub(super) fn add_line(text: &mut String, title: &str, what: impl Display) {
    let what = what.to_string();
    if !what.is_empty() {
        let _ = writeln!(text, "{title:<12} {what}");
    }
}

pub(super) fn without_controls(line: &str) -> String {
    line.replace(char::is_control, " ")
}

fn lines(proof: &Proof) -> String {
    let lines = &proof.lines;
    format!(
        "{} read, {} from NCCL, {} not understood, {} torn",
        lines.read, lines.nccl, lines.not_understood, lines.torn
    )
}
