//! Settings against each other: the harms of `slurm/levels.toml`, more of them in `contradictions.toml` beside this file,
//! and pairs of numbers.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Finding, Known, Rule};
use crate::levels::harm::{self, Does, Harm};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    harm: Vec<Harm>,
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
pub fn table() -> impl Iterator<Item = (&'static str, &'static Harm)> {
    harms().map(|harm| (super::CHECKS[rule(harm.does) as usize].id, harm))
}

/// Every harm that the audit looks for; what is only a name is told as one.
fn harms() -> impl Iterator<Item = &'static Harm> {
    harm::all()
        .iter()
        .filter(|harm| !harm.is_of_a_name())
        .chain(&TABLE.harm)
}

fn rule(does: Does) -> Rule {
    match does {
        Does::Crashes => Rule::Crashes,
        Does::Fails => Rule::Fails,
        Does::Silences => Rule::SilencesPxn,
        Does::SilencesRings => Rule::SilencesRings,
        Does::Nothing => Rule::NoEffect,
    }
}

/// What settings do to each other.
pub(super) fn findings(known: &Known) -> Vec<Finding> {
    let of_harm = |harm: &Harm| {
        let name = harm.names().first().copied().unwrap_or_default();
        Finding::new(
            rule(harm.does),
            name,
            harm.what(&known.harms()),
            &harm.remedy,
        )
    };
    let there = harms().filter(|harm| {
        harm.holds(&known.harms()) && harm.names().iter().all(|name| known.may_read(name))
    });
    there
        .map(of_harm)
        .chain(bounds(known))
        .chain(sockets(known))
        .collect()
}

fn bounds(known: &Known) -> impl Iterator<Item = Finding> {
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
            Finding::new(
                Rule::MinAboveMax,
                least,
                sentence(),
                format!("set {least} to {high} or less"),
            )
        })
    })
}

fn sockets(known: &Known) -> Option<Finding> {
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
        Finding::new(
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
        for harm in &TABLE.harm {
            assert!(
                !harm.why.is_empty() && !harm.remedy.is_empty() && !harm.names().is_empty(),
                "{harm:?}"
            );
            for name in harm.looks_at() {
                let listed = ["NCCL_DEBUG_FILE", "NCCL_IB_ADDR_RANGE"].contains(&name);
                assert!(
                    listed || reading::variable(name).is_some() || values::is_known(name),
                    "{name}"
                );
            }
        }
    }
}
