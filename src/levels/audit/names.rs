//! Names: whether this libnccl reads one, and if not, whose it is. `names.toml` beside this file
//! holds what is known about names that a library does not read.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

use super::{
    finding::{AuditContext, AuditFinding, describe},
    nearest::nearest,
    rule::Rule,
};
use crate::levels::{
    conf::{EffectiveValue, NcclSettings},
    version,
};

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
    instead: String,
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
    since: Option<String>,
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
struct NotVariables {
    names: Vec<String>,
}

/// Names that NCCL reads, and since which version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownNames {
    /// The first NCCL that reads them, according to NVIDIA's documentation.
    since: Option<String>,
    /// If that is unknown, the first of the inspected versions that reads them.
    seen: Option<String>,
    /// The last version that reads them.
    last: Option<String>,
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

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    deprecated: Vec<DeprecatedNames>,
    retired: Vec<RetiredNames>,
    legacy: Vec<LegacyName>,
    foreign: Vec<ForeignNames>,
    not_variables: NotVariables,
    known: Vec<KnownNames>,
}

static TABLE: LazyLock<Table> =
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
    fn rule(&self) -> Rule {
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

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|deprecated| deprecated == name)
    }
}

impl RetiredNames {
    fn finding(&self, name: &str, setting: &str) -> Option<AuditFinding> {
        let rest = name.strip_prefix(&self.prefix)?;
        let sentence = format!("{setting} has no effect: {}", self.says);
        let remedy = if self.kept.iter().any(|kept| kept == rest) {
            format!("set {}{rest} instead", self.successor)
        } else {
            "unset it: nothing replaced it".to_owned()
        };
        Some(AuditFinding::new(Rule::Retired, name, sentence, remedy))
    }
}

impl ForeignNames {
    fn has(&self, name: &str) -> bool {
        let is_listed = self.names.iter().any(|foreign| foreign == name);
        is_listed || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Returns what is wrong with the names that are set.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for (name, setting) in known.settings.iter() {
        // A name with other characters can only come from a line of a file, which `files` reports.
        if setting.file.is_none() || is_plain(name) {
            found.extend(finding(known, name, setting));
        }
    }
    found
}

fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn finding(known: &AuditContext, name: &str, setting: &EffectiveValue) -> Option<AuditFinding> {
    let setting = describe(name, setting);
    let mut retired = TABLE.retired.iter();
    if let Some(found) = retired.find_map(|names| names.finding(name, &setting)) {
        return Some(found);
    }
    if known.names.is_ok_and(|names| names.contains(name)) {
        return legacy_name(known, name, &setting);
    }
    if TABLE.foreign.iter().any(|foreign| foreign.has(name)) {
        return None;
    }
    if let Some(deprecated) = TABLE.deprecated.iter().find(|names| names.has(name)) {
        let sentence = format!("{setting} has no effect: {}", deprecated.says);
        let rule = deprecated.rule();
        let remedy = deprecated.instead_of(name);
        return Some(AuditFinding::new(rule, name, sentence, remedy));
    }
    if let Some(found) = misspelt_of_nccl_tests(name, &setting) {
        return Some(found);
    }
    let Ok(names) = known.names else {
        return legacy_name(known, name, &setting);
    };
    let of_other_version = TABLE
        .known
        .iter()
        .find(|names| names.has(name))
        .and_then(|names| {
            removed(known, name, &setting, names).or_else(|| too_new(known, name, &setting, names))
        });
    of_other_version.or_else(|| Some(unknown(known, name, &setting, names)))
}

/// How the names of nccl-tests begin, and the misspelt ones.
const NCCL_TESTS: &str = "NCCL_TEST";

/// Returns the names that nccl-tests, and this program, read.
fn names_of_nccl_tests() -> BTreeSet<String> {
    let mut foreign = TABLE.foreign.iter();
    let of_nccl_tests = foreign.find(|foreign| foreign.who == "nccl-tests");
    of_nccl_tests
        .into_iter()
        .flat_map(|foreign| foreign.names.iter().cloned())
        .collect()
}

fn misspelt_of_nccl_tests(name: &str, setting: &str) -> Option<AuditFinding> {
    if !name.starts_with(NCCL_TESTS) {
        return None;
    }
    let sentence =
        format!("{setting} has no effect: neither nccl-tests nor pxnbench reads this name");
    let known = names_of_nccl_tests();
    let remedy = did_you_mean(&nearest(name, &known, &[]));
    Some(AuditFinding::new(
        Rule::NcclTestsName,
        name,
        sentence,
        remedy,
    ))
}

/// Returns the findings on misspelt names of nccl-tests alone, for a run, which reads these variables.
pub fn findings_on_nccl_tests(settings: &NcclSettings) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for (name, setting) in settings.iter() {
        let is_foreign = TABLE.foreign.iter().any(|foreign| foreign.has(name));
        if !is_foreign {
            found.extend(misspelt_of_nccl_tests(name, &describe(name, setting)));
        }
    }
    found
}

fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() {
        "unset it, or find out which variable was meant".to_owned()
    } else {
        format!("did you mean {}?", near.join(" or "))
    }
}

fn legacy_name(known: &AuditContext, name: &str, setting: &str) -> Option<AuditFinding> {
    let legacy = TABLE.legacy.iter().find(|legacy| legacy.name == name)?;
    if let Some(since) = legacy.since.as_deref().and_then(version::parse)
        && known.nccl.is_none_or(|nccl| nccl < since)
    {
        return None;
    }
    let sentence = format!("{setting}: the name {}", legacy.says);
    Some(AuditFinding::new(
        Rule::Legacy,
        name,
        sentence,
        &legacy.instead,
    ))
}

/// Reports a name whose last version is before this one, or may be.
fn removed(
    known: &AuditContext,
    name: &str,
    setting: &str,
    names: &KnownNames,
) -> Option<AuditFinding> {
    let last = names.last.as_ref()?;
    if is_newer(known.nccl, last) == Some(false) {
        return None;
    }
    let this = known.nccl_text();
    let sentence =
        format!("{setting} has no effect: NCCL {last} reads it, but {this} no longer does");
    Some(AuditFinding::new(Rule::Removed, name, sentence, "unset it"))
}

/// Reports a name whose first version is after this one, or may be.
fn too_new(
    known: &AuditContext,
    name: &str,
    setting: &str,
    names: &KnownNames,
) -> Option<AuditFinding> {
    let first = names.since.as_ref().or(names.seen.as_ref())?;
    if is_older(known.nccl, first) == Some(false) {
        return None;
    }
    let readers = match names.since {
        Some(_) => format!("NCCL reads it since {first}"),
        None => format!("NCCL {first} reads it"),
    };
    let this = known.nccl_text();
    let sentence = format!("{setting} has no effect: {readers}, but {this} does not yet");
    let remedy = format!("unset it, or load NCCL {first} or newer");
    Some(AuditFinding::new(Rule::TooNew, name, sentence, remedy))
}

/// Returns whether `nccl` is newer than this version; `None` if unknown.
fn is_newer(nccl: Option<i32>, than: &str) -> Option<bool> {
    Some(nccl? > version::parse(than)?)
}

/// Returns whether `nccl` is older than this version; `None` if unknown.
fn is_older(nccl: Option<i32>, than: &str) -> Option<bool> {
    Some(nccl? < version::parse(than)?)
}

fn unknown(
    known: &AuditContext,
    name: &str,
    setting: &str,
    names: &BTreeSet<String>,
) -> AuditFinding {
    let who = match known.nccl {
        Some(_) => format!("{} does not read", known.nccl_text()),
        None => "no NCCL that is known here reads".to_owned(),
    };
    let sentence = format!("{setting} has no effect: {who} this name");
    let near = nearest(name, names, &TABLE.not_variables.names);
    AuditFinding::new(Rule::UnknownName, name, sentence, did_you_mean(&near))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The table against the names of five libraries.
    pub(in crate::levels::audit) const LISTS: [(&str, i32, &str); 5] = [
        (
            "2.18.3",
            21803,
            include_str!("../../../tests/data/nccl-names/2.18.3.txt"),
        ),
        (
            "2.23.4",
            22304,
            include_str!("../../../tests/data/nccl-names/2.23.4.txt"),
        ),
        (
            "2.27.7",
            22707,
            include_str!("../../../tests/data/nccl-names/2.27.7.txt"),
        ),
        (
            "2.30.7",
            23007,
            include_str!("../../../tests/data/nccl-names/2.30.7.txt"),
        ),
        (
            "2.32.3",
            23203,
            include_str!("../../../tests/data/nccl-names/2.32.3.txt"),
        ),
    ];

    /// The names of a list.
    pub(in crate::levels::audit) fn list(text: &str) -> BTreeSet<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_table_agrees_with_the_libraries() {
        for (text, nccl, names) in LISTS {
            let names = list(names);
            for read in &TABLE.known {
                assert!(
                    read.since.is_some() != read.seen.is_some(),
                    "{:?}",
                    read.names
                );
                let first = read
                    .since
                    .as_deref()
                    .or(read.seen.as_deref())
                    .and_then(version::parse)
                    .expect("a version");
                let last = read
                    .last
                    .as_deref()
                    .map(|last| version::parse(last).expect("a version"));
                let there = nccl >= first && last.is_none_or(|last| nccl <= last);
                for name in &read.names {
                    assert_eq!(names.contains(name), there, "{name} in {text}");
                }
            }
            for name in names {
                let in_table = TABLE.known.iter().any(|read| read.names.contains(&name));
                assert!(
                    in_table != TABLE.not_variables.names.contains(&name),
                    "{name} in {text}"
                );
            }
        }
    }

    #[test]
    fn every_entry_is_well_formed() {
        let mut all: Vec<&String> = TABLE
            .deprecated
            .iter()
            .flat_map(|names| &names.names)
            .collect();
        all.extend(TABLE.foreign.iter().flat_map(|foreign| &foreign.names));
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "a name twice");
        assert!(
            TABLE
                .foreign
                .iter()
                .all(|foreign| !foreign.names.is_empty() || !foreign.prefixes.is_empty())
        );
        assert!(
            TABLE
                .foreign
                .iter()
                .flat_map(|foreign| &foreign.prefixes)
                .all(|prefix| prefix.ends_with('_'))
        );
        for deprecated in &TABLE.deprecated {
            assert!(
                !deprecated.says.ends_with('.') && !deprecated.instead.ends_with('.'),
                "{:?}",
                deprecated.names
            );
        }
    }

    #[test]
    fn the_nearest_name_is_a_slip_or_the_same_words() {
        let names = list(LISTS[3].2);
        for (written, meant) in [
            ("NCCL_DEBUGG", "NCCL_DEBUG"),
            ("NCCL_DISABLE_P2P", "NCCL_P2P_DISABLE"),
            ("NCCL_IB_DISABLED", "NCCL_IB_DISABLE"),
            ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
            ("NCCL_PXN_DISABLED", "NCCL_PXN_DISABLE"),
            ("NCCL_ib_hca", "NCCL_IB_HCA"),
            ("NCCL_P2P_PXN_LEVLE", "NCCL_P2P_PXN_LEVEL"),
            ("NCCL_NET_GDRLEVEL", "NCCL_NET_GDR_LEVEL"),
        ] {
            assert_eq!(
                nearest(written, &names, &TABLE.not_variables.names),
                [meant],
                "{written}"
            );
        }
        assert_eq!(
            nearest("NCCL_SOMETHING_QUITE_OTHER", &names, &[]),
            [] as [&str; 0]
        );
        assert_eq!(
            nearest(
                "NCCL_CONFIG_INITIALISER",
                &names,
                &TABLE.not_variables.names
            ),
            [] as [&str; 0],
            "no variable is suggested"
        );
    }
}
