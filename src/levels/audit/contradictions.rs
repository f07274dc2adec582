//! Settings against each other: the harms of `slurm/levels.toml`, more of them in `contradictions.toml` beside this file,
//! and pairs of numbers.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{AuditContext, AuditFinding, Rule};
use crate::levels::conflict::{self, Conflict, Effect};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    conflict: Vec<Conflict>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("contradictions.toml")).expect("contradictions.toml is tested")
});

/// The smallest and the largest number of a thing.
const BOUNDS: [(&str, &str); 4] = [
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"),
    ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
];

/// Sockets that NCCL has for a connection.
const MAX_SOCKETS: i64 = 64;

/// Every harm that the audit looks for, with the id of its rule, for documents.
pub fn table() -> impl Iterator<Item = (&'static str, &'static Conflict)> {
    conflicts().map(|conflict| (super::CHECKS[rule(conflict.does) as usize].id, conflict))
}

/// Every harm that the audit looks for; what is only a name is told as one.
fn conflicts() -> impl Iterator<Item = &'static Conflict> {
    conflict::all()
        .iter()
        .filter(|conflict| !conflict.is_of_a_name())
        .chain(&TABLE.conflict)
}

fn rule(does: Effect) -> Rule {
    match does {
        Effect::Crashes => Rule::Crashes,
        Effect::Fails => Rule::Fails,
        Effect::Silences => Rule::SilencesPxn,
        Effect::SilencesRings => Rule::SilencesRings,
        Effect::Nothing => Rule::NoEffect,
    }
}

/// What settings do to each other.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let of_harm = |conflict: &Conflict| {
        let name = conflict.names().first().copied().unwrap_or_default();
        AuditFinding::new(
            rule(conflict.does),
            name,
            conflict.what(&known.conflicts()),
            &conflict.remedy,
        )
    };
    let there = conflicts().filter(|conflict| {
        conflict.holds(&known.conflicts())
            && conflict.names().iter().all(|name| known.may_read(name))
    });
    there
        .map(of_harm)
        .chain(bounds(known))
        .chain(sockets(known))
        .collect()
}

fn bounds(known: &AuditContext) -> impl Iterator<Item = AuditFinding> {
    BOUNDS.into_iter().filter_map(|(least, most)| {
        let (low, high) = (known.integer(least)?, known.integer(most)?);
        // NCCL takes its own number for what is below one.
        let crossed = low > high && high > 0;
        let sentence = || {
            let said = [least, most]
                .map(|name| known.settings.say(name))
                .join(" is above ");
            format!("{said}: only one of them can hold")
        };
        crossed.then(|| {
            AuditFinding::new(
                Rule::MinAboveMax,
                least,
                sentence(),
                format!("set {least} to {high} or less"),
            )
        })
    })
}

fn sockets(known: &AuditContext) -> Option<AuditFinding> {
    let (threads, each) = (
        known.integer("NCCL_SOCKET_NTHREADS")?,
        known.integer("NCCL_NSOCKS_PERTHREAD")?,
    );
    let product = threads.saturating_mul(each);
    let said = ["NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"]
        .map(|name| known.settings.say(name))
        .join(" times ");
    let sentence = format!(
        "{said} are {product} sockets a connection, and NCCL has {MAX_SOCKETS}: it takes fewer a thread"
    );
    let remedy = "set them so that their product is 64 or less";
    (threads > 0 && product > MAX_SOCKETS).then(|| {
        AuditFinding::new(
            Rule::TooManySockets,
            "NCCL_SOCKET_NTHREADS",
            sentence,
            remedy,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{audit::values, reading};

    #[test]
    fn every_contradiction_is_of_variables_that_the_tables_know() {
        for conflict in &TABLE.conflict {
            assert!(
                !conflict.why.is_empty()
                    && !conflict.remedy.is_empty()
                    && !conflict.names().is_empty(),
                "{conflict:?}"
            );
            for name in conflict.looks_at() {
                let listed = ["NCCL_DEBUG_FILE", "NCCL_IB_ADDR_RANGE"].contains(&name);
                assert!(
                    listed || reading::variable(name).is_some() || values::is_known(name),
                    "{name}"
                );
            }
        }
    }
}
