//! Checks: from what every process said of itself to findings with evidence and remedy. Nothing is gathered here.
//!
//! Each area has a file with its part of the table. [`checks`] is the whole of it, [`examine`] applies it.

mod agree;
mod fabric;
mod fit;
mod gdr;
mod gpu;
mod host;
mod library;
mod nvlink;
mod slurm;
mod sockets;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    facts::health::NodeHealth,
    levels::{
        audit::{self, Severity},
        conf::NcclSettings,
    },
    world::launch,
};

/// What a check comes to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum CheckOutcome {
    /// Nothing is wrong, and the evidence.
    Ok {
        #[expect(missing_docs, reason = "the variant says it")]
        evidence: String,
    },
    /// It does not apply here, or cannot be read.
    NotApplicable {
        #[expect(missing_docs, reason = "the variant says it")]
        reason: String,
    },
    /// It costs speed, or fails under conditions.
    Warning {
        #[expect(missing_docs, reason = "the variant says it")]
        evidence: String,
        #[expect(missing_docs, reason = "the variant says it")]
        remedy: String,
    },
    /// NCCL will fail, or is much slower.
    Failure {
        #[expect(missing_docs, reason = "the variant says it")]
        evidence: String,
        #[expect(missing_docs, reason = "the variant says it")]
        remedy: String,
    },
}

impl CheckOutcome {
    pub(crate) fn ok(evidence: impl Into<String>) -> CheckOutcome {
        CheckOutcome::Ok {
            evidence: evidence.into(),
        }
    }

    pub(crate) fn none(reason: impl Into<String>) -> CheckOutcome {
        CheckOutcome::NotApplicable {
            reason: reason.into(),
        }
    }

    pub(crate) fn warning(evidence: impl Into<String>, remedy: impl Into<String>) -> CheckOutcome {
        CheckOutcome::Warning {
            evidence: evidence.into(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn failure(evidence: impl Into<String>, remedy: impl Into<String>) -> CheckOutcome {
        CheckOutcome::Failure {
            evidence: evidence.into(),
            remedy: remedy.into(),
        }
    }

    /// Its name in the report.
    pub fn word(&self) -> &'static str {
        match self {
            CheckOutcome::Ok { .. } => "ok",
            CheckOutcome::NotApplicable { .. } => "n/a",
            CheckOutcome::Warning { .. } => "warning",
            CheckOutcome::Failure { .. } => "FAILURE",
        }
    }

    /// What it says, and what to do; the second is empty where there is nothing to do.
    pub fn words(&self) -> (&str, &str) {
        match self {
            CheckOutcome::Ok { evidence } => (evidence, ""),
            CheckOutcome::NotApplicable { reason } => (reason, ""),
            CheckOutcome::Warning { evidence, remedy }
            | CheckOutcome::Failure { evidence, remedy } => (evidence, remedy),
        }
    }
}

/// A finding of the audit of NCCL's environment, made on the process itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFact {
    /// The rule's id.
    pub id: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is found.
    pub sentence: String,
    /// What to do.
    pub remedy: String,
}

/// What one process said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankFacts {
    /// Its rank.
    pub rank: u32,
    /// All ranks.
    pub world: u32,
    /// Host name.
    pub host: String,
    /// Number of its node.
    pub node: u32,
    /// Order on its node, and how many processes that has.
    pub local: (u32, u32),
    /// The MPI it talks through; empty where there is one process only.
    pub mpi: String,
    /// libnccl's file and version, or why there is none.
    pub nccl: Result<(String, i32), String>,
    /// NCCL's settings in force.
    pub settings: NcclSettings,
    /// What the audit of them found.
    pub audited: Vec<AuditFact>,
    /// Rules of the audit that could not be applied, and why.
    pub not_audited: Vec<(String, String)>,
    /// Seconds since 1970 on its clock, at a moment that all share.
    pub clock: f64,
    /// Its node.
    pub health: NodeHealth,
}

impl RankFacts {
    /// Is there a GPU of NVIDIA's?
    pub fn has_gpus(&self) -> bool {
        self.health.nvidia.is_some()
            || self
                .health
                .nvml
                .value
                .as_ref()
                .is_some_and(|nvml| !nvml.gpus.is_empty())
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.health.env.get(name).map(String::as_str)
    }

    /// How many processes the launcher says it started, who, and in which variable.
    fn started(&self) -> Option<(u32, &'static str, &'static str)> {
        let launched = launch::processes(&|name| self.env(name).map(str::to_owned))?;
        Some((launched.count, launched.launcher, launched.variable))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.env(name)?.trim().parse().ok()
    }
}

/// How a check looks at the job.
pub enum CheckScope {
    /// At each process.
    Process(fn(&RankFacts) -> CheckOutcome),
    /// At each process of a Slurm job.
    Slurm(fn(&RankFacts) -> CheckOutcome),
    /// At all of them together.
    Job(fn(&[RankFacts]) -> CheckOutcome),
}

/// One check.
pub struct Check {
    /// Its name, for good.
    pub id: &'static str,
    /// What it looks at.
    pub about: &'static str,
    /// How it judges.
    pub judge: CheckScope,
}

const fn each(
    id: &'static str,
    about: &'static str,
    judge: fn(&RankFacts) -> CheckOutcome,
) -> Check {
    Check {
        id,
        about,
        judge: CheckScope::Process(judge),
    }
}

const fn in_slurm(
    id: &'static str,
    about: &'static str,
    judge: fn(&RankFacts) -> CheckOutcome,
) -> Check {
    Check {
        id,
        about,
        judge: CheckScope::Slurm(judge),
    }
}

const fn all(
    id: &'static str,
    about: &'static str,
    judge: fn(&[RankFacts]) -> CheckOutcome,
) -> Check {
    Check {
        id,
        about,
        judge: CheckScope::Job(judge),
    }
}

/// All checks, in the order of the report. The audit's rules are [`audit::CHECKS`].
pub fn checks() -> impl Iterator<Item = &'static Check> {
    [
        library::CHECKS,
        gdr::CHECKS,
        host::CHECKS,
        fit::CHECKS,
        gpu::CHECKS,
        nvlink::CHECKS,
        fabric::CHECKS,
        sockets::CHECKS,
        slurm::CHECKS,
        agree::CHECKS,
    ]
    .into_iter()
    .flatten()
}

/// A row of the report: a check, a verdict, and who has it.
#[derive(Clone, Debug, Serialize)]
pub struct ReportLine {
    /// The check.
    pub id: String,
    /// What it looks at.
    pub about: String,
    /// Is it about differences between processes?
    pub across: bool,
    /// `all`, or ranks and hosts.
    pub who: String,
    /// What it comes to.
    #[serde(flatten)]
    pub verdict: CheckOutcome,
}

/// Applies all checks and the audit to the processes of a job, in rank order.
pub fn examine(job: &[RankFacts]) -> Vec<ReportLine> {
    let mut rows: Vec<ReportLine> = checks().flat_map(|check| apply(check, job)).collect();
    rows.extend(audit(job));
    rows
}

fn apply(check: &Check, job: &[RankFacts]) -> Vec<ReportLine> {
    let each = |judge: &dyn Fn(&RankFacts) -> CheckOutcome| {
        rows(check.id, check.about, job, |one| vec![judge(one)])
    };
    match check.judge {
        CheckScope::Process(judge) => each(&judge),
        CheckScope::Slurm(judge) => each(&|one| match one.env("SLURM_JOB_ID") {
            Some(_) => judge(one),
            None => CheckOutcome::none("this is not a Slurm job"),
        }),
        CheckScope::Job(judge) => vec![ReportLine {
            id: check.id.into(),
            about: check.about.into(),
            across: true,
            who: "all".into(),
            verdict: judge(job),
        }],
    }
}

/// What the audit says, and a row of each rule that found nothing or could not be applied.
fn audit(job: &[RankFacts]) -> Vec<ReportLine> {
    let of_rule = |rule: &audit::AuditRule| {
        rows(rule.id, rule.about, job, |one| {
            let found: Vec<CheckOutcome> = one
                .audited
                .iter()
                .filter(|found| found.id == rule.id)
                .map(audited)
                .collect();
            if !found.is_empty() {
                return found;
            }
            let not = one.not_audited.iter().find(|(id, _)| id == rule.id);
            vec![not.map_or_else(
                || CheckOutcome::ok("nothing found"),
                |(_, why)| CheckOutcome::none(why.clone()),
            )]
        })
    };
    audit::CHECKS.iter().flat_map(of_rule).collect()
}

/// A row for each verdict, with who has it; the worst first.
fn rows(
    id: &str,
    about: &str,
    job: &[RankFacts],
    verdicts: impl Fn(&RankFacts) -> Vec<CheckOutcome>,
) -> Vec<ReportLine> {
    let mut by: BTreeMap<CheckOutcome, Vec<&RankFacts>> = BTreeMap::new();
    for subject in job {
        for verdict in verdicts(subject) {
            by.entry(verdict).or_default().push(subject);
        }
    }
    let row = |(verdict, have): (CheckOutcome, Vec<&RankFacts>)| ReportLine {
        id: id.into(),
        about: about.into(),
        across: false,
        who: who(&have, job),
        verdict,
    };
    by.into_iter().rev().map(row).collect()
}

fn audited(found: &AuditFact) -> CheckOutcome {
    match found.severity {
        Severity::Failure => CheckOutcome::failure(&found.sentence, &found.remedy),
        Severity::Warning => CheckOutcome::warning(&found.sentence, &found.remedy),
        Severity::Note => CheckOutcome::ok(format!("note: {}", found.sentence)),
    }
}

/// `all`, `node3`, or `ranks 1, 5 on node3`; long lists are cut.
fn who(have: &[&RankFacts], job: &[RankFacts]) -> String {
    const SHOWN: usize = 4;
    if have.len() == job.len() {
        return "all".into();
    }
    let mut hosts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for subject in have {
        hosts.entry(&subject.host).or_default().push(subject.rank);
    }
    let of_host = |(host, ranks): (&&str, &Vec<u32>)| {
        let all = job.iter().filter(|subject| subject.host == **host).count();
        if ranks.len() == all {
            (*host).to_owned()
        } else {
            format!("{host} (rank {})", list(ranks))
        }
    };
    let shown: Vec<String> = hosts.iter().take(SHOWN).map(of_host).collect();
    let more = hosts.len().saturating_sub(SHOWN);
    if more > 0 {
        format!("{} and {more} hosts more", shown.join(", "))
    } else {
        shown.join(", ")
    }
}

/// `1 warning`, `2 warnings`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

/// The processes by node.
fn nodes(job: &[RankFacts]) -> BTreeMap<u32, Vec<&RankFacts>> {
    let mut nodes: BTreeMap<u32, Vec<&RankFacts>> = BTreeMap::new();
    for one in job {
        nodes.entry(one.node).or_default().push(one);
    }
    nodes
}

fn list<T: ToString>(items: &[T]) -> String {
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The value of what a process is known not to have.
const NONE: &str = "none";

/// A verdict on something that must be the same on all processes. `value` is [`NONE`] for one that has none, which differs
/// from one that has some; and nothing for one that does not know, or does not need it.
fn same(
    job: &[RankFacts],
    what: &str,
    value: impl Fn(&RankFacts) -> Option<String>,
    remedy: &str,
    fails: bool,
) -> CheckOutcome {
    let mut by: BTreeMap<String, Vec<&RankFacts>> = BTreeMap::new();
    for subject in job {
        if let Some(value) = value(subject) {
            by.entry(value).or_default().push(subject);
        }
    }
    let said: Vec<String> = by
        .iter()
        .map(|(value, have)| format!("{value} on {}", who(have, job)))
        .collect();
    match (by.keys().next(), by.len()) {
        (None, _) => CheckOutcome::none(format!("no process knows its {what}")),
        (Some(value), 1) if value == NONE => {
            CheckOutcome::none(format!("{what}: no process has any"))
        }
        _ if job.len() == 1 => CheckOutcome::none("there is one process only"),
        (Some(_), 1) => CheckOutcome::ok(format!("{what}: {}", said.concat())),
        _ => {
            let evidence = format!("{what} differs: {}", said.join("; "));
            if fails {
                CheckOutcome::failure(evidence, remedy)
            } else {
                CheckOutcome::warning(evidence, remedy)
            }
        }
    }
}
