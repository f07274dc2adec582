//! Names: does the very libnccl read it, and if not, whose is it? `names.toml` beside this file has what is known of names
//! that a library does not read.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

use super::{AuditContext, AuditFinding, Rule, say};
use crate::levels::{conf::EffectiveValue, conflict};

/// What a name is that NCCL does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Never,
    Pytorch,
    Removed,
    Elsewhere,
}

/// Names that are told, with the sentence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeprecatedNames {
    word: Word,
    /// The names.
    pub names: Vec<String>,
    /// What is so.
    pub says: String,
    /// What to do.
    pub instead: String,
}

/// A name that is still read, and has a successor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegacyName {
    /// The name.
    pub name: String,
    /// The first NCCL in which that is so; none for all.
    since: Option<String>,
    /// What is so.
    pub says: String,
    /// What to say.
    pub instead: String,
}

/// Names of somebody else's: no finding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignNames {
    /// What they are for, or whose.
    pub who: String,
    /// Whole names.
    #[serde(default)]
    pub names: Vec<String>,
    /// How names begin.
    #[serde(default)]
    pub prefixes: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotVariables {
    names: Vec<String>,
}

/// Names that NCCL reads, and since when.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownNames {
    /// The first NCCL that reads them, by NVIDIA's documentation.
    since: Option<String>,
    /// Where that is not known, the first that was looked at and does.
    seen: Option<String>,
    /// The last that does.
    last: Option<String>,
    /// The names.
    pub names: Vec<String>,
}

impl KnownNames {
    /// Which NCCL reads them: `since 2.22`, `seen in 2.18.3, last in 2.27.7`.
    pub fn versions(&self) -> String {
        let first = match (&self.since, &self.seen) {
            (Some(since), _) => format!("since {since}"),
            (None, Some(seen)) => format!("seen in {seen}"),
            (None, None) => String::new(),
        };
        let last = self
            .last
            .as_ref()
            .map_or(String::new(), |last| format!(", last in {last}"));
        first + &last
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    told: Vec<DeprecatedNames>,
    legacy: Vec<LegacyName>,
    others: Vec<ForeignNames>,
    not_variables: NotVariables,
    read: Vec<KnownNames>,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("names.toml")).expect("names.toml is tested"));

/// The names that are told, for documents.
pub fn told() -> &'static [DeprecatedNames] {
    &TABLE.told
}

/// The names that have a successor, for documents.
pub fn legacy() -> &'static [LegacyName] {
    &TABLE.legacy
}

/// The names that NCCL reads, for documents.
pub fn read() -> &'static [KnownNames] {
    &TABLE.read
}

/// The names of somebody else's, for documents.
pub fn others() -> &'static [ForeignNames] {
    &TABLE.others
}

impl DeprecatedNames {
    fn rule(&self) -> Rule {
        match self.word {
            Word::Never => Rule::NeverExisted,
            Word::Pytorch => Rule::PyTorch,
            Word::Removed => Rule::Removed,
            Word::Elsewhere => Rule::Elsewhere,
        }
    }

    /// The id of the rule that tells them.
    pub fn id(&self) -> &'static str {
        super::CHECKS[self.rule() as usize].id
    }
}

impl ForeignNames {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
    }
}

/// What is wrong with the names that are set.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    // A name with other characters can only come from a line of a file, which `files` tells.
    let is_name = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let named = known
        .settings
        .iter()
        .filter(|(name, setting)| setting.file.is_none() || is_name(name));
    named
        .filter_map(|(name, setting)| of_name(known, name, setting))
        .collect()
}

fn of_name(known: &AuditContext, name: &str, setting: &EffectiveValue) -> Option<AuditFinding> {
    let said = say(name, setting);
    if known.names.is_ok_and(|names| names.contains(name)) {
        return legacy_name(known, name, &said);
    }
    if TABLE.others.iter().any(|others| others.has(name)) {
        return None;
    }
    if let Some(told) = TABLE
        .told
        .iter()
        .find(|told| told.names.iter().any(|n| n == name))
    {
        let sentence = format!("{said} has no effect: {}", told.says);
        return Some(AuditFinding::new(
            told.rule(),
            name,
            sentence,
            &told.instead,
        ));
    }
    let Ok(names) = known.names else {
        return legacy_name(known, name, &said);
    };
    let read = TABLE
        .read
        .iter()
        .find(|read| read.names.iter().any(|n| n == name));
    Some(
        match read.and_then(|read| of_other_version(known, name, &said, read)) {
            Some(finding) => finding,
            None => unknown(known, name, &said, names),
        },
    )
}

fn legacy_name(known: &AuditContext, name: &str, said: &str) -> Option<AuditFinding> {
    let legacy = TABLE.legacy.iter().find(|legacy| legacy.name == name)?;
    let since = legacy.since.as_deref().and_then(conflict::version);
    let is_so = since.is_none_or(|since| known.nccl.is_some_and(|nccl| nccl >= since));
    is_so.then(|| {
        AuditFinding::new(
            Rule::Legacy,
            name,
            format!("{said}: the name {}", legacy.says),
            &legacy.instead,
        )
    })
}

/// A name that NCCL reads, but not this one: it is older, or newer. `None` where the versions do not explain it.
fn of_other_version(
    known: &AuditContext,
    name: &str,
    said: &str,
    read: &KnownNames,
) -> Option<AuditFinding> {
    let this = known.nccl_text();
    let is_before = |text: &Option<String>| {
        let version = text.as_deref().and_then(conflict::version)?;
        known.nccl.map(|nccl| nccl < version)
    };
    let is_after = |text: &Option<String>| {
        let version = text.as_deref().and_then(conflict::version)?;
        known.nccl.map(|nccl| nccl > version)
    };
    if let Some(last) = read
        .last
        .as_ref()
        .filter(|_| is_after(&read.last) != Some(false))
    {
        let sentence =
            format!("{said} has no effect: NCCL {last} read it, and {this} no longer does");
        return Some(AuditFinding::new(Rule::Removed, name, sentence, "unset it"));
    }
    let first = read.since.as_ref().or(read.seen.as_ref())?;
    let from = Some(first.clone());
    if is_before(&from) == Some(false) {
        return None;
    }
    let reads = if read.since.is_some() {
        format!("NCCL reads it since {first}")
    } else {
        format!("NCCL {first} reads it")
    };
    let sentence = format!("{said} has no effect: {reads}, and {this} does not yet");
    Some(AuditFinding::new(
        Rule::TooNew,
        name,
        sentence,
        format!("unset it, or load NCCL {first} or newer"),
    ))
}

fn unknown(known: &AuditContext, name: &str, said: &str, names: &BTreeSet<String>) -> AuditFinding {
    let sentence = format!(
        "{said} has no effect: {} does not read this name",
        known.nccl_text()
    );
    let remedy = match nearest(name, names).as_slice() {
        [] => "unset it, or find out what it was meant to be".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    AuditFinding::new(Rule::UnknownName, name, sentence, remedy)
}

/// The names that a library reads which are most like this one: one letter or word off, or the same words in another order.
/// At most three.
pub fn nearest<'a>(name: &str, names: &'a BTreeSet<String>) -> Vec<&'a str> {
    const LONGEST: usize = 100;
    if name.chars().count() > LONGEST {
        return Vec::new();
    }
    let tail = |name: &'a str| name.strip_prefix("NCCL_").unwrap_or(name);
    let capitals = name.to_ascii_uppercase();
    let this = capitals.strip_prefix("NCCL_").unwrap_or(&capitals);
    let sorted = |tail: &str| {
        let mut words: Vec<String> = tail.split('_').map(str::to_owned).collect();
        words.sort();
        words
    };
    let limit = match this.len() {
        0..=3 => 0,
        4..=7 => 1,
        8..=12 => 2,
        _ => 3,
    };
    let words = sorted(this);
    let distance = |other: &'a str| {
        let other = tail(other);
        if sorted(other) == words {
            0
        } else {
            strsim::damerau_levenshtein(this, other)
        }
    };
    let is_variable = |name: &&String| !TABLE.not_variables.names.contains(name);
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .filter(is_variable)
        .map(|name| (distance(name), name.as_str()))
        .filter(|(d, _)| *d <= limit)
        .collect();
    near.sort_unstable();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .take_while(|(distance, _)| *distance == best)
        .take(3)
        .map(|(_, name)| name)
        .collect()
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
        for (text, version, names) in LISTS {
            let names = list(names);
            for read in &TABLE.read {
                assert!(
                    read.since.is_some() != read.seen.is_some(),
                    "{:?}",
                    read.names
                );
                let first = read
                    .since
                    .as_deref()
                    .or(read.seen.as_deref())
                    .and_then(conflict::version)
                    .expect("a version");
                let last = read
                    .last
                    .as_deref()
                    .map(|last| conflict::version(last).expect("a version"));
                let there = version >= first && last.is_none_or(|last| version <= last);
                for name in &read.names {
                    assert_eq!(names.contains(name), there, "{name} in {text}");
                }
            }
            for name in names {
                let in_table = TABLE.read.iter().any(|read| read.names.contains(&name));
                assert!(
                    in_table != TABLE.not_variables.names.contains(&name),
                    "{name} in {text}"
                );
            }
        }
    }

    #[test]
    fn every_entry_is_well_formed() {
        let mut all: Vec<&String> = TABLE.told.iter().flat_map(|told| &told.names).collect();
        all.extend(TABLE.others.iter().flat_map(|others| &others.names));
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "a name twice");
        assert!(
            TABLE
                .others
                .iter()
                .all(|others| !others.names.is_empty() || !others.prefixes.is_empty())
        );
        assert!(
            TABLE
                .others
                .iter()
                .flat_map(|others| &others.prefixes)
                .all(|prefix| prefix.ends_with('_'))
        );
        for told in &TABLE.told {
            assert!(
                !told.says.ends_with('.') && !told.instead.ends_with('.'),
                "{:?}",
                told.names
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
            assert_eq!(nearest(written, &names), [meant], "{written}");
        }
        assert_eq!(
            nearest("NCCL_SOMETHING_QUITE_OTHER", &names),
            [] as [&str; 0]
        );
        assert_eq!(
            nearest("NCCL_CONFIG_INITIALISER", &names),
            [] as [&str; 0],
            "no variable is suggested"
        );
    }
}
