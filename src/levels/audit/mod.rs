//! What is wrong with the `NCCL_*` settings that are in force: [`findings`]. [`names`] asks whether the very libnccl reads
//! a name, [`values`] whether a value is read as it looks, [`contradictions`] what settings do to each other and to PXN,
//! `leftovers` what belongs to debugging, `files` what the lines of an nccl.conf really set.
//!
//! Each rule is one entry of [`CHECKS`]; docs/AUDIT.md is made from it and from the tables beside this file.

pub mod contradictions;
mod files;
mod leftovers;
pub mod names;
pub mod values;

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use super::{
    conf::{EffectiveValue, NcclSettings},
    conflict,
};

/// How bad a finding is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// NCCL crashes, fails or hangs with it.
    Failure,
    /// It does not do what it looks like.
    Warning,
    /// It does what it says; good to know all the same.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Failure => "failure",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// The rules, in the order of [`CHECKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    UnknownName,
    NeverExisted,
    PyTorch,
    Removed,
    TooNew,
    Elsewhere,
    Legacy,
    MisreadInteger,
    IgnoredValue,
    NoMeaning,
    UnknownWord,
    FailingWord,
    StrayCharacters,
    EmptyValue,
    ListSyntax,
    PrefixMatch,
    Crashes,
    Fails,
    SilencesPxn,
    SilencesRings,
    NoEffect,
    MinAboveMax,
    TooManySockets,
    IgnoreNetMismatch,
    DebugOutput,
    DebugFileShared,
    SubsystemsHidden,
    DebugLeft,
    DeadLine,
    FileOverridden,
}

/// What a rule must know beside the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Settings,
    /// Which names libnccl reads.
    Library,
    /// That this is a job, not a hand at the keyboard.
    Job,
}

/// A rule of the audit.
#[derive(Clone, Copy, Debug)]
pub struct AuditRule {
    rule: Rule,
    /// Its name, for good.
    pub id: &'static str,
    /// How bad what it finds is.
    pub severity: Severity,
    /// What it must know.
    pub needs: Needs,
    /// What it looks for.
    pub about: &'static str,
}

const fn check(
    rule: Rule,
    id: &'static str,
    severity: Severity,
    needs: Needs,
    about: &'static str,
) -> AuditRule {
    AuditRule {
        rule,
        id,
        severity,
        needs,
        about,
    }
}

use Needs::{Job, Library, Settings as Always};
use Severity::{Failure, Note, Warning};

/// All rules.
#[rustfmt::skip]
pub const CHECKS: [AuditRule; 30] = [
    check(Rule::UnknownName, "env.unknown-name", Warning, Library, "a name that neither this libnccl nor other known software reads; with the nearest name it reads"),
    check(Rule::NeverExisted, "env.never-existed", Warning, Always, "a name that people write and NCCL never had"),
    check(Rule::PyTorch, "env.pytorch", Warning, Always, "a name of PyTorch's, which NCCL does not read"),
    check(Rule::Removed, "env.removed", Warning, Library, "a name that older NCCL read and this one does not; with what replaced it"),
    check(Rule::TooNew, "env.too-new", Warning, Library, "a name that newer NCCL reads and this one does not yet"),
    check(Rule::Elsewhere, "env.elsewhere", Warning, Always, "a name that only some provider's fork or plugin reads"),
    check(Rule::Legacy, "env.legacy", Note, Always, "a name that is still read, under which NCCL has something newer"),
    check(Rule::MisreadInteger, "env.misread-integer", Warning, Always, "text where NCCL reads an integer: it takes the digits it finds, or 0"),
    check(Rule::IgnoredValue, "env.ignored-value", Warning, Always, "a value that NCCL silently ignores: a distance in small letters, an integer too large"),
    check(Rule::NoMeaning, "env.no-meaning", Warning, Always, "an integer outside its meaningful range: a range, a power of 2, a multiple of the warp"),
    check(Rule::UnknownWord, "env.unknown-word", Warning, Always, "a word that is not among those NCCL knows there"),
    check(Rule::FailingWord, "env.failing-word", Failure, Always, "an algorithm or protocol that NCCL does not know: since 2.24 it ends with an error"),
    check(Rule::StrayCharacters, "env.stray-characters", Warning, Always, "quotes, spaces or a comment that are part of the value, as in an nccl.conf"),
    check(Rule::EmptyValue, "env.empty", Note, Always, "a variable that is set to nothing"),
    check(Rule::ListSyntax, "env.list-syntax", Warning, Always, "`^` and `=` of a list of interfaces or adapters elsewhere than at its start, or in the wrong order; spaces in it"),
    check(Rule::PrefixMatch, "env.prefix-match", Warning, Always, "an adapter without `=` that also matches others: mlx5_1 is mlx5_10 too"),
    check(Rule::Crashes, "env.crashes", Failure, Always, "settings that crash NCCL together"),
    check(Rule::Fails, "env.fails", Failure, Always, "settings that make NCCL end with an error"),
    check(Rule::SilencesPxn, "env.silences-pxn", Warning, Always, "settings that keep NCCL from using PXN without saying so"),
    check(Rule::SilencesRings, "env.silences-rings", Warning, Always, "settings that keep rings from using PXN"),
    check(Rule::NoEffect, "env.no-effect", Warning, Always, "a setting that another one overrides"),
    check(Rule::MinAboveMax, "env.min-above-max", Warning, Always, "a minimum above its maximum"),
    check(Rule::TooManySockets, "env.too-many-sockets", Warning, Always, "more than 64 sockets a connection: threads times sockets of a thread"),
    check(Rule::IgnoreNetMismatch, "env.ignore-net-mismatch", Failure, Always, "NCCL_IGNORE_NET_MISMATCH: ranks with other network devices then hang for ever (NVIDIA/nccl issue 2428)"),
    check(Rule::DebugOutput, "env.debug-output", Warning, Job, "NCCL's log on stdout in a job: lines of ranks tear, and stdout grows"),
    check(Rule::DebugFileShared, "env.debug-file-shared", Warning, Always, "one NCCL_DEBUG_FILE for several processes: each truncates it"),
    check(Rule::SubsystemsHidden, "env.subsystems-hidden", Warning, Always, "NCCL_DEBUG_SUBSYS without INIT or ENV: connections or settings are not in the log"),
    check(Rule::DebugLeft, "env.debug-left", Warning, Job, "a variable for debugging left in a job"),
    check(Rule::DeadLine, "env.dead-line", Warning, Always, "a line of an nccl.conf that sets no variable NCCL reads: `export`, spaces before the name or before `=`"),
    check(Rule::FileOverridden, "env.file-overridden", Note, Always, "a line of an nccl.conf that the environment or another file overrides"),
];

/// What the audit goes by.
#[derive(Clone, Copy, Debug)]
pub struct AuditContext<'a> {
    /// What is in force.
    pub settings: &'a NcclSettings,
    /// Names and texts of the files that NCCL reads, in the order in which they win; those that are there.
    pub files: &'a [(String, String)],
    /// The names that the very libnccl reads, or why that is not known.
    pub names: Result<&'a BTreeSet<String>, &'a str>,
    /// The version of that libnccl as `ncclGetVersion` gives it.
    pub nccl: Option<i32>,
    /// Has the driver cuMem? `None` where that is unknown.
    pub cumem: Option<bool>,
    /// The RDMA adapters of the node by name, where they are known.
    pub adapters: Option<&'a [String]>,
    /// Is this a job, in which variables for debugging have no place?
    pub in_job: bool,
}

/// Something that is wrong, or good to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditFinding {
    #[serde(skip)]
    rule: Rule,
    /// The rule's id.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The variable, or the first of them.
    pub name: String,
    /// What is found: setting, origin, and what NCCL makes of it.
    pub sentence: String,
    /// What to do.
    pub remedy: String,
}

impl AuditFinding {
    fn new(
        rule: Rule,
        name: &str,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> AuditFinding {
        let AuditRule { id, severity, .. } = CHECKS[rule as usize];
        debug_assert_eq!(CHECKS[rule as usize].rule, rule);
        AuditFinding {
            rule,
            id,
            severity,
            name: name.to_owned(),
            sentence: sentence.into(),
            remedy: remedy.into(),
        }
    }
}

impl AuditContext<'_> {
    /// Why a rule says nothing here; `None` where it was applied.
    pub fn not_applicable(&self, check: &AuditRule) -> Option<String> {
        match check.needs {
            Needs::Library => self.names.err().map(str::to_owned),
            Needs::Job if !self.in_job => Some("not in a job".into()),
            Needs::Job | Needs::Settings => None,
        }
    }

    fn conflicts(&self) -> conflict::ConflictContext<'_> {
        conflict::ConflictContext {
            settings: self.settings,
            nccl: self.nccl,
            cumem: self.cumem,
        }
    }

    /// May libnccl read this name? What it does not read does nothing, and is told by its name alone.
    fn may_read(&self, name: &str) -> bool {
        self.names.map_or(true, |names| names.contains(name))
    }

    /// `NCCL 2.18.3`, or `this NCCL`.
    fn nccl_text(&self) -> String {
        self.nccl.map_or("this NCCL".into(), |version| {
            format!("NCCL {}", conflict::version_text(version))
        })
    }

    fn integer(&self, name: &str) -> Option<i64> {
        self.settings.get(name).and_then(super::reading::integer)
    }
}

/// `NAME=VALUE`, with the file where it comes from one.
fn say(name: &str, EffectiveValue { value, file }: &EffectiveValue) -> String {
    let file = file
        .as_ref()
        .map_or(String::new(), |file| format!(" (in {file})"));
    format!("{name}={}{file}", short(value))
}

/// What of a value fits into a sentence.
fn short(value: &str) -> String {
    shown(value, 80)
}

/// A value on one line, up to so many characters.
fn shown(value: &str, longest: usize) -> String {
    let shown: String = value
        .chars()
        .take(longest)
        .flat_map(char::escape_debug)
        .collect();
    // Quotes are the user's own, and to be shown as they stand.
    let shown = shown.replace("\\\"", "\"").replace("\\'", "'");
    if value.chars().count() > longest {
        format!("{shown}…")
    } else {
        shown
    }
}

/// Everything that is wrong: the worst first, then in the order of [`CHECKS`], then by name.
pub fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let all = [
        names::findings,
        values::findings,
        contradictions::findings,
        leftovers::findings,
        files::findings,
    ];
    let mut found: Vec<AuditFinding> = all.iter().flat_map(|findings| findings(known)).collect();
    let applied = |finding: &AuditFinding| {
        known
            .not_applicable(&CHECKS[finding.rule as usize])
            .is_none()
    };
    found.retain(applied);
    found.sort_by(|a, b| {
        (a.severity, a.rule, &a.name, &a.sentence).cmp(&(b.severity, b.rule, &b.name, &b.sentence))
    });
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
