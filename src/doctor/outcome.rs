//! The outcome of a check.

use serde::Serialize;

/// The outcome of a check, with its evidence. The order is that of severity, the worst last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum CheckOutcome {
    /// Nothing is wrong.
    Ok {
        #[expect(missing_docs, reason = "the variant says it")]
        evidence: String,
    },
    /// The check does not apply here, or what it needs cannot be read.
    NotApplicable {
        #[expect(missing_docs, reason = "the variant says it")]
        reason: String,
    },
    /// Something that costs speed, or fails under certain conditions.
    Warning {
        #[expect(missing_docs, reason = "the variant says it")]
        evidence: String,
        #[expect(missing_docs, reason = "the variant says it")]
        remedy: String,
    },
    /// Something that makes NCCL fail, or run much slower.
    Failure {
        #[expect(missing_docs, reason = "the variant says it")]
        evidence: String,
        #[expect(missing_docs, reason = "the variant says it")]
        remedy: String,
    },
}

impl CheckOutcome {
    pub(super) fn ok(evidence: impl Into<String>) -> CheckOutcome {
        CheckOutcome::Ok {
            evidence: evidence.into(),
        }
    }

    pub(super) fn not_applicable(reason: impl Into<String>) -> CheckOutcome {
        CheckOutcome::NotApplicable {
            reason: reason.into(),
        }
    }

    pub(super) fn warning(evidence: impl Into<String>, remedy: impl Into<String>) -> CheckOutcome {
        CheckOutcome::Warning {
            evidence: evidence.into(),
            remedy: remedy.into(),
        }
    }

    pub(super) fn failure(evidence: impl Into<String>, remedy: impl Into<String>) -> CheckOutcome {
        CheckOutcome::Failure {
            evidence: evidence.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns a failure if `fails`, and a warning otherwise.
    pub(super) fn finding(
        fails: bool,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> CheckOutcome {
        if fails {
            CheckOutcome::failure(evidence, remedy)
        } else {
            CheckOutcome::warning(evidence, remedy)
        }
    }

    /// Returns the name of the outcome in the text report.
    pub fn name(&self) -> &'static str {
        match self {
            CheckOutcome::Ok { .. } => "ok",
            CheckOutcome::NotApplicable { .. } => "n/a",
            CheckOutcome::Warning { .. } => "warning",
            CheckOutcome::Failure { .. } => "FAILURE",
        }
    }

    /// Returns the evidence, or the reason why the check does not apply.
    pub fn evidence(&self) -> &str {
        match self {
            CheckOutcome::NotApplicable { reason } => reason,
            CheckOutcome::Ok { evidence }
            | CheckOutcome::Warning { evidence, .. }
            | CheckOutcome::Failure { evidence, .. } => evidence,
        }
    }

    /// Returns the remedy; empty if there is nothing to do.
    pub fn remedy(&self) -> &str {
        match self {
            CheckOutcome::Ok { .. } | CheckOutcome::NotApplicable { .. } => "",
            CheckOutcome::Warning { remedy, .. } | CheckOutcome::Failure { remedy, .. } => remedy,
        }
    }

    /// Returns whether this is a warning or a failure.
    pub fn is_finding(&self) -> bool {
        self.is_warning() || self.is_failure()
    }

    /// Returns whether this is a warning.
    pub fn is_warning(&self) -> bool {
        matches!(self, CheckOutcome::Warning { .. })
    }

    /// Returns whether this is a failure.
    pub fn is_failure(&self) -> bool {
        matches!(self, CheckOutcome::Failure { .. })
    }
}
