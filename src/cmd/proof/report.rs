//! A proof as text.

use std::fmt::Write;

use crate::{
    nccl_log::{
        Proof, SendCounts,
        reason::{HOW_TO_LOG, Reason},
    },
    units::Bytes,
};

/// Relays that the text names; JSON has all.
const RELAYS: usize = 16;
/// Algorithms that the text names.
const CHOICES: usize = 16;

/// The report.
pub(super) fn text(proof: &Proof) -> String {
    let mut text = format!("PXN: {}\n", proof.verdict.words());
    let mut say = |name: &str, what: String| {
        if !what.is_empty() {
            let _ = writeln!(text, "{name:<12} {what}");
        }
    };
    let row = proof.reason.row();
    say("why", row.meaning.into());
    for also in &proof.also {
        say("", format!("Also: {}", also.row().meaning));
    }
    if proof.reason != Reason::Relayed {
        say("what to do", row.remedy.into());
    }
    if matches!(
        proof.reason,
        Reason::TooQuiet | Reason::NoInit | Reason::NoGraph
    ) {
        say("how to log", HOW_TO_LOG.into());
    }
    say("send/recv", kind(&proof.send_recv, proof.send_recv_reason));
    say(
        "collectives",
        kind(&proof.collective, proof.collective_reason),
    );
    say("unsorted", kind(&proof.unsorted, None));
    say("relays", relays(proof));
    say("GPUDirect", gpudirect(proof));
    say("transports", pairs(&proof.transports));
    say("job", job(proof));
    say("NCCL", nccl(proof));
    say("channels", channels(proof));
    say("rings", rings(proof));
    say("algorithms", algorithms(proof));
    say("warnings", warnings(proof));
    if proof.segmentation_faults > 0 {
        say(
            "crashes",
            format!(
                "{} lines of a segmentation fault",
                proof.segmentation_faults
            ),
        );
    }
    say("lines", lines(proof));
    for (title, quoted) in [
        ("evidence", &proof.evidence),
        ("not understood or torn, for example", &proof.not_understood),
    ] {
        if !quoted.is_empty() {
            let _ = writeln!(text, "{title}:");
        }
        for line in quoted {
            let _ = writeln!(text, "  {}", plain(line));
        }
    }
    text
}

fn kind(sends: &SendCounts, reason: Option<Reason>) -> String {
    if sends.sends == 0 {
        return String::new();
    }
    let why = reason.map_or(String::new(), |reason| format!(" ({})", reason.row().name));
    format!(
        "{} of {} send connections relayed{why}",
        sends.relayed, sends.sends
    )
}

fn relays(proof: &Proof) -> String {
    let named = proof.relays.iter().take(RELAYS).map(|relay| {
        let host = if relay.host.is_empty() {
            "?"
        } else {
            &relay.host
        };
        format!(
            "{} by rank {} on {host} through {}",
            relay.send_recv + relay.collective,
            relay.rank,
            relay.nic
        )
    });
    let more = proof.relays.len().saturating_sub(RELAYS);
    let rest = (more > 0).then(|| format!("{more} more relays (--json has them)"));
    named.chain(rest).collect::<Vec<_>>().join("; ")
}

fn gpudirect(proof: &Proof) -> String {
    let of = &proof.gpudirect;
    if of.of_sends + of.of_receives == 0 {
        return String::new();
    }
    format!(
        "{} of {} sending ends, {} of {} receiving ends",
        of.sends, of.of_sends, of.receives, of.of_receives
    )
}

fn pairs(of: &std::collections::BTreeMap<String, u64>) -> String {
    of.iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn job(proof: &Proof) -> String {
    let mut parts = Vec::new();
    parts.extend(proof.ranks.map(|ranks| count(ranks, "rank")));
    parts.extend(proof.nodes.map(|nodes| count(nodes, "node")));
    if proof.ranks.is_some_and(|ranks| proof.ranks_in_log < ranks) {
        parts.push(format!(
            "{} of the ranks in this log, and the counts are of those",
            proof.ranks_in_log
        ));
    }
    if proof.processes > 0 {
        parts.push(format!(
            "{} in this log",
            count(proof.processes, "process").replace("processs", "processes")
        ));
    }
    if proof.unfinished_processes > 0 {
        parts.push(format!(
            "{} of them not ready when it ends",
            proof.unfinished_processes
        ));
    }
    if proof.communicators > 1 {
        parts.push(format!(
            "{} communicators, each with rank numbers of its own",
            proof.communicators
        ));
    }
    parts.join(", ")
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn nccl(proof: &Proof) -> String {
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
    proof.channels.map_or(String::new(), |of| {
        format!(
            "{} for collectives, {} for send/recv ({} with one peer), {} for NVLink SHARP",
            of.collective, of.send_recv, of.send_recv_per_peer, of.nvls
        )
    })
}

fn rings(proof: &Proof) -> String {
    let rings = &proof.rings;
    let mut parts = Vec::new();
    if rings.connected > 0 {
        let numbers = match rings.with_numbers {
            0 => String::new(),
            of => format!(
                " (PXN in {} of {of}, GPUDirect in {} of {of})",
                rings.pxn, rings.gpudirect
            ),
        };
        parts.push(format!(
            "rings connected {} times{numbers}",
            rings.connected
        ));
    }
    if proof.trees > 0 {
        parts.push(format!("trees connected {} times", proof.trees));
    }
    parts.join(", ")
}

fn algorithms(proof: &Proof) -> String {
    let one = |choice: &crate::nccl_log::AlgorithmChoice| {
        let function = if choice.function.is_empty() {
            "?"
        } else {
            &choice.function
        };
        let (from, to) = (Bytes(choice.from_bytes), Bytes(choice.to_bytes));
        let sizes = if from == to {
            format!("{from}")
        } else {
            format!("{from} to {to}")
        };
        format!(
            "{function} {} {} {sizes}",
            choice.algorithm, choice.protocol
        )
    };
    let more = proof.algorithms.len().saturating_sub(CHOICES);
    let rest = (more > 0).then(|| format!("{more} more (--json has them)"));
    proof
        .algorithms
        .iter()
        .take(CHOICES)
        .map(one)
        .chain(rest)
        .collect::<Vec<_>>()
        .join("; ")
}

fn warnings(proof: &Proof) -> String {
    match &proof.first_warning {
        Some(first) => format!("{}; the first: {}", proof.warnings, plain(first)),
        None => String::new(),
    }
}

/// Without what a terminal would obey.
fn plain(line: &str) -> String {
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn lines(proof: &Proof) -> String {
    let of = &proof.lines;
    format!(
        "{} read, {} of NCCL's, {} not understood, {} torn",
        of.read, of.nccl, of.not_understood, of.torn
    )
}
