//! Settings against each other: the conflicts of `slurm/levels.toml`, more of them in
//! `contradictions.toml` beside this file, and pairs of numbers.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{
    finding::{AuditContext, AuditFinding},
    rule::Rule,
};
use crate::levels::{
    conflict::{Conflict, Effect},
    table,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    conflict: Vec<Conflict>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("contradictions.toml")).expect("contradictions.toml is tested")
});

/// Variables that are the minimum and the maximum of the same number.
const BOUNDS: [(&str, &str); 4] = [
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"),
    ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
];

/// The most sockets that NCCL uses for a connection.
const MAX_SOCKETS: i64 = 64;

/// Returns every conflict that the audit looks for, with the id of its rule, for documents.
pub fn table() -> impl Iterator<Item = (&'static str, &'static Conflict)> {
    conflicts().map(|conflict| (rule(conflict.does).check().id, conflict))
}

/// Returns every conflict that the audit looks for. Those of a name alone are left to the audit of
/// names.
fn conflicts() -> impl Iterator<Item = &'static Conflict> {
    let of_levels = table::conflicts().iter();
    of_levels
        .filter(|conflict| !conflict.is_of_a_name())
        .chain(&TABLE.conflict)
}

fn rule(effect: Effect) -> Rule {
    match effect {
        Effect::Crashes => Rule::Crashes,
        Effect::Fails => Rule::Fails,
        Effect::Silences => Rule::SilencesPxn,
        Effect::SilencesRings => Rule::SilencesRings,
        Effect::Nothing => Rule::NoEffect,
    }
}

/// Returns the contradictions between the settings.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found: Vec<AuditFinding> = conflicts()
        .filter_map(|conflict| finding(known, conflict))
        .collect();
    for (minimum, maximum) in BOUNDS {
        found.extend(crossed_bounds(known, minimum, maximum));
    }
    found.extend(too_many_sockets(known));
    found
}

fn finding(known: &AuditContext, conflict: &Conflict) -> Option<AuditFinding> {
    let context = known.conflicts();
    let names = conflict.names();
    if !conflict.holds(&context) || !names.iter().all(|name| known.may_read(name)) {
        return None;
    }
    Some(AuditFinding::new(
        rule(conflict.does),
        names.first().copied().unwrap_or_default(),
        conflict.describe(&context),
        &conflict.remedy,
    ))
}

fn crossed_bounds(known: &AuditContext, minimum: &str, maximum: &str) -> Option<AuditFinding> {
    let low = known.integer(minimum)?;
    let high = known.integer(maximum)?;
    // NCCL uses its own number instead of one below 1.
    if low <= high || high <= 0 {
        return None;
    }
    let sentence = format!(
        "{} is above {}: NCCL can only honor one of them",
        known.settings.describe(minimum),
        known.settings.describe(maximum)
    );
    let remedy = format!("set {minimum} to {high} or less");
    Some(AuditFinding::new(
        Rule::MinAboveMax,
        minimum,
        sentence,
        remedy,
    ))
}

fn too_many_sockets(known: &AuditContext) -> Option<AuditFinding> {
    const THREADS: &str = "NCCL_SOCKET_NTHREADS";
    const PER_THREAD: &str = "NCCL_NSOCKS_PERTHREAD";
    let threads = known.integer(THREADS)?;
    let product = threads.saturating_mul(known.integer(PER_THREAD)?);
    if threads <= 0 || product <= MAX_SOCKETS {
        return None;
    }
    let sentence = format!(
        "{} times {} are {product} sockets per connection, but NCCL uses {MAX_SOCKETS} at most: \
         it uses fewer per thread",
        known.settings.describe(THREADS),
        known.settings.describe(PER_THREAD)
    );
    let remedy = format!("set them so that their product is {MAX_SOCKETS} or less");
    Some(AuditFinding::new(
        Rule::TooManySockets,
        THREADS,
        sentence,
        remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::audit::values;

    #[test]
    fn every_contradiction_is_of_variables_that_the_tables_know() {
        for conflict in &TABLE.conflict {
            assert!(
                !conflict.why.is_empty()
                    && !conflict.remedy.is_empty()
                    && !conflict.names().is_empty(),
                "{conflict:?}"
            );
            for name in conflict.looked_at() {
                let listed = ["NCCL_DEBUG_FILE", "NCCL_IB_ADDR_RANGE"].contains(&name);
                assert!(
                    listed || table::variable(name).is_some() || values::is_known(name),
                    "{name}"
                );
            }
        }
    }
}
