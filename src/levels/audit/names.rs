//! Names: whether this libnccl reads one, and if not, whose it is.

use std::collections::BTreeSet;

use super::{
    finding::{AuditContext, AuditFinding, describe},
    known_names::{KnownNames, RetiredNames, TABLE},
    nearest::nearest,
    rule::Rule,
};
use crate::levels::{
    conf::{EffectiveValue, NcclSettings},
    version,
};

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
    if let Some(found) = retired.find_map(|names| retired_name(names, name, &setting)) {
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

/// Returns the finding on a name of `names`; `None` if the name is none of them.
fn retired_name(names: &RetiredNames, name: &str, setting: &str) -> Option<AuditFinding> {
    let rest = name.strip_prefix(&names.prefix)?;
    let sentence = format!("{setting} has no effect: {}", names.says);
    let remedy = if names.kept.iter().any(|kept| kept == rest) {
        format!("set {}{rest} instead", names.successor)
    } else {
        "unset it: nothing replaced it".to_owned()
    };
    Some(AuditFinding::new(Rule::Retired, name, sentence, remedy))
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

/// Returns the findings on misspelt names of nccl-tests alone, for a run, which reads these
/// variables.
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

    /// Returns the names of a list.
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
