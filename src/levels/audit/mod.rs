//! The audit of the `NCCL_*` settings in force: [`findings`]. [`names`] checks whether this libnccl
//! reads a name, [`values`] whether a value is read as it looks, [`contradictions`] how settings
//! affect each other and PXN, `leftovers` what belongs to debugging, and `files` what the lines of
//! an nccl.conf really set.
//!
//! Each rule is one entry of [`CHECKS`]; docs/AUDIT.md is generated from it and from the
//! tables beside this file.

pub mod contradictions;
mod files;
mod finding;
pub mod known_names;
mod leftovers;
mod lists;
pub mod names;
mod nearest;
mod rule;
pub mod values;
mod words;

#[cfg(test)]
mod tests;

pub use finding::{AuditContext, AuditFinding};
pub use nearest::nearest;
pub use rule::{AuditRule, CHECKS, Needs, Severity};

/// Returns everything that is wrong: the worst first, then in the order of [`CHECKS`], then by
/// name.
pub fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = names::findings(known);
    found.extend(values::findings(known));
    found.extend(contradictions::findings(known));
    found.extend(leftovers::findings(known));
    found.extend(files::findings(known));

    in_order(known, found)
}

/// Returns what is wrong with the name and the value of each setting, whatever else is set.
pub fn own_findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = names::findings(known);
    found.extend(values::findings(known));
    in_order(known, found)
}

/// Returns what is wrong with the names, whatever the values.
pub fn name_findings(known: &AuditContext) -> Vec<AuditFinding> {
    in_order(known, names::findings(known))
}

/// Returns the findings of the rules that apply: the worst first, then in the order of [`CHECKS`],
/// then by name.
fn in_order(known: &AuditContext, mut found: Vec<AuditFinding>) -> Vec<AuditFinding> {
    found.retain(|finding| known.not_applicable(finding.rule.check()).is_none());
    found.sort_by(|a, b| {
        (a.severity, a.rule, &a.name, &a.sentence).cmp(&(b.severity, b.rule, &b.name, &b.sentence))
    });
    found.dedup();
    found
}
