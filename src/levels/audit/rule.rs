//! The rules of the audit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The severity of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// NCCL crashes, fails or hangs.
    Failure,
    /// A setting does not do what it appears to do.
    Warning,
    /// A setting does what it says, but deserves attention.
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
pub(super) enum Rule {
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
    NcclTestsName,
    Retired,
}

impl Rule {
    /// Returns the entry of this rule in [`CHECKS`].
    pub(super) fn check(self) -> &'static AuditRule {
        let check = &CHECKS[self as usize];
        debug_assert_eq!(check.rule, self);
        check
    }
}

/// The facts that a rule needs beside the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// None.
    Settings,
    /// The names that libnccl reads.
    Library,
    /// A job, as opposed to an interactive shell.
    Job,
}

/// A rule of the audit.
#[derive(Clone, Copy, Debug)]
pub struct AuditRule {
    pub(super) rule: Rule,
    /// Its name, which never changes.
    pub id: &'static str,
    /// The severity of its findings.
    pub severity: Severity,
    /// The facts it needs.
    pub needs: Needs,
    /// What it finds.
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
pub const CHECKS: &[AuditRule] = &[
    check(Rule::UnknownName, "env.unknown-name", Warning, Library,
        "a name that neither this libnccl nor other known software reads, with the nearest name \
         that is read"),
    check(Rule::NeverExisted, "env.never-existed", Warning, Always,
        "a name that is in use but that no NCCL ever read"),
    check(Rule::PyTorch, "env.pytorch", Warning, Always,
        "a PyTorch variable, which NCCL does not read"),
    check(Rule::Removed, "env.removed", Warning, Library,
        "a name that older versions of NCCL read but this one does not, with its replacement"),
    check(Rule::TooNew, "env.too-new", Warning, Library,
        "a name that newer versions of NCCL read but this one does not yet"),
    check(Rule::Elsewhere, "env.elsewhere", Warning, Always,
        "a name that only a provider's fork or plugin reads"),
    check(Rule::Legacy, "env.legacy", Note, Always,
        "a name that is still read but has a successor"),
    check(Rule::MisreadInteger, "env.misread-integer", Warning, Always,
        "text where NCCL reads an integer: it uses the leading digits, or 0"),
    check(Rule::IgnoredValue, "env.ignored-value", Warning, Always,
        "a value that NCCL silently ignores: a distance in lower case, an integer that is too \
         large"),
    check(Rule::NoMeaning, "env.no-meaning", Warning, Always,
        "an integer that is out of range, or not a power of 2 or a multiple of the warp size as \
         required"),
    check(Rule::UnknownWord, "env.unknown-word", Warning, Always,
        "a word that NCCL does not know for this variable"),
    check(Rule::FailingWord, "env.failing-word", Failure, Always,
        "an algorithm or protocol that NCCL does not know: since 2.24 it ends with an error"),
    check(Rule::StrayCharacters, "env.stray-characters", Warning, Always,
        "quotes, spaces or a comment that are part of the value, as happens in an nccl.conf"),
    check(Rule::EmptyValue, "env.empty", Note, Always,
        "a variable that is set to nothing"),
    check(Rule::ListSyntax, "env.list-syntax", Warning, Always,
        "a list of interfaces or adapters with spaces, or with `^` and `=` in the wrong order or \
         not at its start"),
    check(Rule::PrefixMatch, "env.prefix-match", Warning, Always,
        "an adapter without `=` that also matches others: mlx5_1 also means mlx5_10"),
    check(Rule::Crashes, "env.crashes", Failure, Always,
        "settings that together crash NCCL"),
    check(Rule::Fails, "env.fails", Failure, Always,
        "settings that make NCCL end with an error"),
    check(Rule::SilencesPxn, "env.silences-pxn", Warning, Always,
        "settings that silently keep NCCL from using PXN"),
    check(Rule::SilencesRings, "env.silences-rings", Warning, Always,
        "settings that keep rings from using PXN"),
    check(Rule::NoEffect, "env.no-effect", Warning, Always,
        "a setting that another one overrides"),
    check(Rule::MinAboveMax, "env.min-above-max", Warning, Always,
        "a minimum above its maximum"),
    check(Rule::TooManySockets, "env.too-many-sockets", Warning, Always,
        "more than 64 sockets per connection: threads times sockets per thread"),
    check(Rule::IgnoreNetMismatch, "env.ignore-net-mismatch", Failure, Always,
        "NCCL_IGNORE_NET_MISMATCH: ranks with different network devices hang (NVIDIA/nccl issue \
         2428)"),
    check(Rule::DebugOutput, "env.debug-output", Warning, Job,
        "NCCL's log on stdout in a job: lines of several ranks get mixed up, and stdout grows"),
    check(Rule::DebugFileShared, "env.debug-file-shared", Warning, Always,
        "one NCCL_DEBUG_FILE for several processes: each truncates it"),
    check(Rule::SubsystemsHidden, "env.subsystems-hidden", Warning, Always,
        "NCCL_DEBUG_SUBSYS without INIT or ENV: connections or settings are missing from the log"),
    check(Rule::DebugLeft, "env.debug-left", Warning, Job,
        "a debugging variable left in a job"),
    check(Rule::DeadLine, "env.dead-line", Warning, Always,
        "a line of an nccl.conf that sets nothing NCCL reads: `export`, spaces before the name or \
         before `=`"),
    check(Rule::FileOverridden, "env.file-overridden", Note, Always,
        "a line of an nccl.conf that the environment or another file overrides"),
    check(Rule::NcclTestsName, "env.nccl-tests-name", Warning, Always,
        "a name that looks like one of nccl-tests but that neither nccl-tests nor pxnbench reads, \
         with the nearest one that is read"),
    check(Rule::Retired, "env.retired", Warning, Always,
        "a variable of another library that the library no longer reads, with its successor: \
         libfabric's FI_OFI_RXR_*"),
];
