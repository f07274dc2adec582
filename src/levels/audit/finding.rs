//! The facts that the audit works on, and what it finds.

use std::collections::BTreeSet;

use serde::Serialize;

use super::rule::{AuditRule, Needs, Rule, Severity};
use crate::levels::{
    conf::{EffectiveValue, NcclSettings},
    conflict::ConflictContext,
    reading, version,
};

/// The facts that the audit works on.
#[derive(Clone, Copy, Debug)]
pub struct AuditContext<'a> {
    /// The settings in force.
    pub settings: &'a NcclSettings,
    /// Names and texts of the existing files that NCCL reads, the one that wins first.
    pub files: &'a [(String, String)],
    /// The names that this libnccl reads, or why they are unknown.
    pub names: Result<&'a BTreeSet<String>, &'a str>,
    /// The version of this libnccl as `ncclGetVersion` returns it.
    pub nccl: Option<i32>,
    /// Whether the driver has cuMem; `None` if unknown.
    pub cumem: Option<bool>,
    /// The names of the node's RDMA adapters, if known.
    pub adapters: Option<&'a [String]>,
    /// Whether this is a job, in which debugging variables have no place.
    pub in_job: bool,
}

/// Something that is wrong, or deserves attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditFinding {
    #[serde(skip)]
    pub(super) rule: Rule,
    /// The rule's id.
    pub id: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The variable, or the first of several.
    pub name: String,
    /// The setting, its origin, and what NCCL makes of it.
    pub sentence: String,
    /// The remedy.
    pub remedy: String,
}

impl AuditFinding {
    pub(super) fn new(
        rule: Rule,
        name: &str,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> AuditFinding {
        let AuditRule { id, severity, .. } = rule.check();
        AuditFinding {
            rule,
            id,
            severity: *severity,
            name: name.to_owned(),
            sentence: sentence.into(),
            remedy: remedy.into(),
        }
    }
}

impl AuditContext<'_> {
    /// Returns why a rule was not applied; `None` if it was.
    pub fn not_applicable(&self, check: &AuditRule) -> Option<String> {
        match check.needs {
            Needs::Library => self.names.err().map(str::to_owned),
            Needs::Job if !self.in_job => Some("not in a job".into()),
            Needs::Job | Needs::Settings => None,
        }
    }

    pub(super) fn conflicts(&self) -> ConflictContext<'_> {
        ConflictContext {
            settings: self.settings,
            nccl: self.nccl,
            cumem: self.cumem,
        }
    }

    /// Returns whether libnccl may read this name. A name that it does not read has no effect, and
    /// is reported as such.
    pub(super) fn may_read(&self, name: &str) -> bool {
        self.names.map_or(true, |names| names.contains(name))
    }

    /// Returns `NCCL 2.18.3`, or `this NCCL` if the version is unknown.
    pub(super) fn nccl_text(&self) -> String {
        match self.nccl {
            Some(version) => format!("NCCL {}", version::text(version)),
            None => "this NCCL".into(),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        self.settings.get(name).and_then(reading::integer)
    }
}

/// Describes a setting: `NAME=VALUE`, followed by the file if one sets it.
pub(super) fn describe(name: &str, EffectiveValue { value, file }: &EffectiveValue) -> String {
    let value = short(value);
    match file {
        Some(file) => format!("{name}={value} (in {file})"),
        None => format!("{name}={value}"),
    }
}

/// Cuts a value to a length that fits into a sentence.
pub(super) fn short(value: &str) -> String {
    on_one_line(value, 80)
}

/// Writes a value on one line, up to `longest` characters of it.
pub(super) fn on_one_line(value: &str, longest: usize) -> String {
    let characters = value.chars().take(longest);
    let escaped: String = characters.flat_map(char::escape_debug).collect();
    // Quotes are the user's own and shown unchanged.
    let mut shown = escaped.replace("\\\"", "\"").replace("\\'", "'");
    if value.chars().count() > longest {
        shown.push('…');
    }
    shown
}
