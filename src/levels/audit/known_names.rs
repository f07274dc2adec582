//! What is known about names of variables: `names.toml` beside this file.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

use super::rule::Rule;
use crate::levels::version;

/// The status of a name that NCCL does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NameStatus {
    /// No NCCL ever read it.
    Never,
    /// PyTorch reads it.
    Pytorch,
    /// Older versions of NCCL read it.
    Removed,
    /// A provider's fork or plugin reads it.
    Elsewhere,
}

/// Names that no current NCCL reads, with what to write instead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeprecatedNames {
    status: NameStatus,
    /// The names.
    pub names: Vec<String>,
    /// The fact, which follows the setting in a sentence.
    pub says: String,
    /// The remedy, in which `{name}` stands for the name.
    pub(super) instead: String,
}

/// Names of another library that it no longer reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetiredNames {
    /// The beginning of the names.
    pub prefix: String,
    /// The beginning of the names that replaced them.
    pub successor: String,
    /// The rest of the names that live on.
    pub kept: Vec<String>,
    /// The fact, which follows the setting in a sentence.
    pub says: String,
}

/// A name that is still read but has a successor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegacyName {
    /// The name.
    pub name: String,
    /// The first NCCL in which it has a successor; none if all do.
    pub(super) since: Option<String>,
    /// The fact, which follows the name in a sentence.
    pub says: String,
    /// The remedy.
    pub instead: String,
}

/// Names of other software, which are no finding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignNames {
    /// The software, or the purpose of the names.
    pub who: String,
    /// Whole names.
    #[serde(default)]
    pub names: Vec<String>,
    /// Prefixes of names.
    #[serde(default)]
    pub prefixes: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotVariables {
    pub(super) names: Vec<String>,
}

/// Names that NCCL reads, and since which version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownNames {
    /// The first NCCL that reads them, according to NVIDIA's documentation.
    pub(super) since: Option<String>,
    /// If that is unknown, the first of the inspected versions that reads them.
    pub(super) seen: Option<String>,
    /// The last version that reads them.
    pub(super) last: Option<String>,
    /// The names.
    pub names: Vec<String>,
}

impl KnownNames {
    /// Returns the versions that read them: `since 2.22`, `seen in 2.18.3, last in 2.27.7`.
    pub fn versions(&self) -> String {
        let mut versions = match (&self.since, &self.seen) {
            (Some(since), _) => format!("since {since}"),
            (None, Some(seen)) => format!("seen in {seen}"),
            (None, None) => String::new(),
        };
        if let Some(last) = &self.last {
            versions += &format!(", last in {last}");
        }
        versions
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) deprecated: Vec<DeprecatedNames>,
    pub(super) retired: Vec<RetiredNames>,
    pub(super) legacy: Vec<LegacyName>,
    pub(super) foreign: Vec<ForeignNames>,
    pub(super) not_variables: NotVariables,
    pub(super) known: Vec<KnownNames>,
}

pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("names.toml")).expect("names.toml is tested"));

/// Returns the names that no current NCCL reads.
pub fn deprecated() -> &'static [DeprecatedNames] {
    &TABLE.deprecated
}

/// Returns the names that another library no longer reads.
pub fn retired() -> &'static [RetiredNames] {
    &TABLE.retired
}

/// Returns the names that have a successor.
pub fn legacy() -> &'static [LegacyName] {
    &TABLE.legacy
}

/// Returns the names that NCCL reads.
pub fn known() -> &'static [KnownNames] {
    &TABLE.known
}

/// Returns the names that any known NCCL reads, in place of those of a libnccl.
pub fn of_any_version() -> BTreeSet<String> {
    let names = TABLE.known.iter().flat_map(|known| &known.names);
    names.cloned().collect()
}

/// Returns the newest NCCL whose names are known.
pub fn newest_version() -> Option<i32> {
    let versions = TABLE.known.iter().filter_map(|known| {
        let seen = known.seen.as_ref().or(known.since.as_ref())?;
        version::parse(seen)
    });
    versions.max()
}

/// Returns the names of other software.
pub fn foreign() -> &'static [ForeignNames] {
    &TABLE.foreign
}

impl DeprecatedNames {
    pub(super) fn rule(&self) -> Rule {
        match self.status {
            NameStatus::Never => Rule::NeverExisted,
            NameStatus::Pytorch => Rule::PyTorch,
            NameStatus::Removed => Rule::Removed,
            NameStatus::Elsewhere => Rule::Elsewhere,
        }
    }

    /// Returns the id of the rule that reports them.
    pub fn id(&self) -> &'static str {
        self.rule().check().id
    }

    /// Returns the remedy for one of the names.
    pub fn instead_of(&self, name: &str) -> String {
        self.instead.replace("{name}", name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|deprecated| deprecated == name)
    }
}

impl ForeignNames {
    pub(super) fn has(&self, name: &str) -> bool {
        let is_listed = self.names.iter().any(|foreign| foreign == name);
        is_listed || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}
