//! Applying all checks to a job.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    agree,
    check::{Check, CheckScope},
    compare::name_processes,
    fabric, fit, gdr, gpu, host, library, named, nvlink,
    outcome::CheckOutcome,
    slurm, sockets, start,
};
use crate::{
    facts::ranks::{AuditFact, RankFacts},
    levels::audit::{self, AuditRule, Severity},
};

/// A line of the report: a check, an outcome, and the processes that have it.
#[derive(Clone, Debug, Serialize)]
pub struct ReportLine {
    /// The check's id.
    pub id: String,
    /// What it checks.
    pub about: String,
    /// Whether it compares processes with each other.
    pub across: bool,
    /// `all`, or hosts and ranks.
    pub who: String,
    /// The outcome.
    #[serde(flatten)]
    pub verdict: CheckOutcome,
}

/// Returns all checks, in the order of the report. The audit's rules are [`audit::CHECKS`].
pub fn checks() -> impl Iterator<Item = &'static Check> {
    [
        start::CHECKS,
        library::CHECKS,
        gdr::CHECKS,
        host::CHECKS,
        fit::CHECKS,
        gpu::CHECKS,
        nvlink::CHECKS,
        fabric::CHECKS,
        sockets::CHECKS,
        named::CHECKS,
        slurm::CHECKS,
        agree::CHECKS,
    ]
    .into_iter()
    .flatten()
}

/// Applies all checks and the rules of the audit to the processes of a job, which are in rank
/// order.
pub fn examine(job: &[RankFacts]) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    for check in checks() {
        lines.extend(apply_check(check, job));
    }
    for rule in audit::CHECKS {
        let outcomes = |process: &RankFacts| audit_outcomes(rule, process);
        lines.extend(lines_by_outcome(rule.id, rule.about, job, outcomes));
    }
    lines
}

fn apply_check(check: &Check, job: &[RankFacts]) -> Vec<ReportLine> {
    match check.scope {
        CheckScope::Process(apply) => {
            lines_by_outcome(check.id, check.about, job, |process| vec![apply(process)])
        }
        CheckScope::Slurm(apply) => lines_by_outcome(check.id, check.about, job, |process| {
            vec![if process.is_in_slurm_job() {
                apply(process)
            } else {
                CheckOutcome::not_applicable("this is not a Slurm job")
            }]
        }),
        CheckScope::Job(apply) => vec![ReportLine {
            id: check.id.into(),
            about: check.about.into(),
            across: true,
            who: "all".into(),
            verdict: apply(job),
        }],
    }
}

/// Returns what a rule of the audit found on a process, or that it found nothing, or why it could
/// not be applied.
fn audit_outcomes(rule: &AuditRule, process: &RankFacts) -> Vec<CheckOutcome> {
    let findings: Vec<CheckOutcome> = process
        .audited
        .iter()
        .filter(|finding| finding.id == rule.id)
        .map(audit_outcome)
        .collect();
    if !findings.is_empty() {
        return findings;
    }
    let skipped = process
        .not_audited
        .iter()
        .find(|skipped| skipped.id == rule.id);
    vec![match skipped {
        Some(skipped) => CheckOutcome::not_applicable(skipped.reason.clone()),
        None => CheckOutcome::ok("nothing found"),
    }]
}

fn audit_outcome(finding: &AuditFact) -> CheckOutcome {
    match finding.severity {
        Severity::Failure => CheckOutcome::failure(&finding.sentence, &finding.remedy),
        Severity::Warning => CheckOutcome::warning(&finding.sentence, &finding.remedy),
        Severity::Note => CheckOutcome::ok(format!("note: {}", finding.sentence)),
    }
}

/// Returns one line per outcome, with the processes that have it; the worst first.
fn lines_by_outcome(
    id: &str,
    about: &str,
    job: &[RankFacts],
    outcomes: impl Fn(&RankFacts) -> Vec<CheckOutcome>,
) -> Vec<ReportLine> {
    let mut processes_by_outcome: BTreeMap<CheckOutcome, Vec<&RankFacts>> = BTreeMap::new();
    for process in job {
        for outcome in outcomes(process) {
            processes_by_outcome
                .entry(outcome)
                .or_default()
                .push(process);
        }
    }
    let mut lines = Vec::new();
    for (outcome, processes) in processes_by_outcome.into_iter().rev() {
        lines.push(ReportLine {
            id: id.into(),
            about: about.into(),
            across: false,
            who: name_processes(&processes, job),
            verdict: outcome,
        });
    }
    lines
}
