//! Values: whether NCCL reads one as it looks. `slurm/levels.toml` holds how the variables of
//! levels are read, `values.toml` beside this file the others.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

pub use super::words::{Choices, Words};
use super::{
    finding::{AuditContext, AuditFinding, describe, short},
    lists,
    rule::Rule,
};
use crate::levels::{
    conf::EffectiveValue,
    reading::{Misreading, ParseRule, Variable},
    table,
};

/// Integers that share one rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integers {
    /// Their names.
    pub names: Vec<String>,
    #[serde(default)]
    legal: Vec<i64>,
    range: Option<(i64, i64)>,
    #[serde(default)]
    power_of_2: bool,
    multiple_of: Option<i64>,
    why: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    integers: Vec<Integers>,
    words: Vec<Words>,
    choices: Vec<Choices>,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("values.toml")).expect("values.toml is tested"));

/// A variable that is an integer or a distance.
#[derive(Clone, Copy)]
struct Scalar {
    variable: &'static Variable,
    /// What follows a meaningless value in a sentence, if the table has a text of its own.
    why: Option<&'static str>,
}

/// The table's integers by name.
static INTEGERS: LazyLock<BTreeMap<&str, (Variable, Option<&str>)>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for group in &TABLE.integers {
        for name in &group.names {
            all.insert(name.as_str(), (group.variable(name), group.why.as_deref()));
        }
    }
    all
});

/// Returns the groups of integers, for documents.
pub fn integers() -> &'static [Integers] {
    &TABLE.integers
}

/// Returns the variables that are words, for documents.
pub fn words() -> &'static [Words] {
    &TABLE.words
}

/// Returns the variables that are lists per collective, for documents.
pub fn choices() -> &'static [Choices] {
    &TABLE.choices
}

impl Integers {
    fn variable(&self, name: &str) -> Variable {
        Variable {
            name: name.to_owned(),
            reads: ParseRule::Integer,
            legal: self.legal.clone(),
            range: self.range,
            power_of_2: self.power_of_2,
            multiple_of: self.multiple_of,
            source: String::new(),
        }
    }

    /// Returns the meaningful values: `0 or 1`, `a power of 2 from 4096 to 1073741824`; none if any
    /// integer has a meaning.
    pub fn legal(&self) -> Option<String> {
        let is_restricted = !self.legal.is_empty()
            || self.range.is_some()
            || self.power_of_2
            || self.multiple_of.is_some();
        let name = self.names.first()?;
        is_restricted.then(|| self.variable(name).legal_values())
    }
}

fn find_scalar(name: &str) -> Option<Scalar> {
    if let Some(variable) = table::variable(name) {
        return Some(Scalar {
            variable,
            why: None,
        });
    }
    let (variable, why) = INTEGERS.get(name)?;
    Some(Scalar {
        variable,
        why: *why,
    })
}

fn find_words(name: &str) -> Option<&'static Words> {
    TABLE.words.iter().find(|words| words.name == name)
}

fn find_choices(name: &str) -> Option<&'static Choices> {
    TABLE.choices.iter().find(|choices| choices.name == name)
}

/// Returns whether a table says how this variable is read.
pub(super) fn is_known(name: &str) -> bool {
    find_scalar(name).is_some() || find_words(name).is_some() || find_choices(name).is_some()
}

fn is_read_as(name: &str, rule: ParseRule) -> bool {
    find_scalar(name).is_some_and(|scalar| scalar.variable.reads == rule)
}

/// Returns the values that are not read as they look, of names that NCCL may read.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for (name, setting) in known.settings.iter() {
        if known.may_read(name) {
            found.extend(finding(known, name, setting));
        }
    }
    found
}

fn finding(known: &AuditContext, name: &str, setting: &EffectiveValue) -> Option<AuditFinding> {
    if !is_read_as(name, ParseRule::Integer) && is_text(name) {
        let finding = empty(name, setting).or_else(|| stray_characters(name, setting));
        if finding.is_some() {
            return finding;
        }
    }
    if lists::is_list(name) {
        return lists::finding(known, name, setting);
    }
    match find_scalar(name) {
        Some(scalar) if scalar.variable.reads != ParseRule::Word => scalar.finding(setting),
        _ => match find_words(name) {
            Some(words) => words.finding(setting),
            None => find_choices(name)?.finding(known, setting),
        },
    }
}

impl Scalar {
    fn finding(self, setting: &EffectiveValue) -> Option<AuditFinding> {
        let name = &self.variable.name;
        let (misreading, remedy) = self.variable.misread_as(&setting.value)?;
        let setting = describe(name, setting);
        let (rule, sentence) = match misreading {
            Misreading::As(number) => (
                Rule::MisreadInteger,
                format!("{setting} is read as {number}: NCCL reads an integer"),
            ),
            Misreading::Ignored if self.variable.reads == ParseRule::Integer => (
                Rule::IgnoredValue,
                format!("{setting} is ignored: it is too large for an integer"),
            ),
            Misreading::Ignored => (
                Rule::IgnoredValue,
                format!(
                    "{setting} is silently ignored: NCCL knows distances in capitals, and the old \
                     numbers"
                ),
            ),
            Misreading::Meaningless => {
                let why = self.why.unwrap_or("has no meaning of its own");
                (Rule::NoMeaning, format!("{setting} {why}"))
            }
        };
        Some(AuditFinding::new(rule, name, sentence, remedy))
    }
}

/// Returns whether the variable is known to be a text, in which stray characters are a mistake.
fn is_text(name: &str) -> bool {
    lists::is_list(name) || is_known(name) || name.ends_with("_FILE") || name.ends_with("_PLUGIN")
}

/// Reports a variable that is set to nothing.
fn empty(name: &str, setting: &EffectiveValue) -> Option<AuditFinding> {
    // An empty distance or network has another effect, which its own rule reports.
    let has_other_rule = name == "NCCL_NET" || is_read_as(name, ParseRule::Path);
    if !setting.value.is_empty() || has_other_rule {
        return None;
    }
    let sentence = format!(
        "{} is set to nothing: NCCL behaves as if it were unset, but no nccl.conf can set it",
        describe(name, setting)
    );
    let remedy = "unset it unless that is intended";
    Some(AuditFinding::new(Rule::EmptyValue, name, sentence, remedy))
}

/// Reports quotes, spaces and comments that are part of a text.
fn stray_characters(name: &str, setting: &EffectiveValue) -> Option<AuditFinding> {
    let value = setting.value.as_str();
    let has_outer_space = value.trim() != value;
    let what = if let Some(quote) = outer_quote(value) {
        format!("the {quote} is part of the value")
    } else if comment(value).is_some() {
        "what follows # is part of the value".to_owned()
    } else if has_outer_space {
        "the leading or trailing space is part of the value".to_owned()
    } else {
        return None;
    };
    let mut shown = describe(name, setting);
    if has_outer_space {
        shown += ", with a space,";
    }
    let bare = &value[..comment(value).unwrap_or(value.len())];
    let bare = bare.trim().trim_matches(['"', '\'']).trim();
    let sentence = format!("{shown} is not read as it looks: {what}");
    let remedy = format!("write {name}={}, and nothing else on the line", short(bare));
    Some(AuditFinding::new(
        Rule::StrayCharacters,
        name,
        sentence,
        remedy,
    ))
}

/// Returns the quotation mark at an end of the value.
fn outer_quote(value: &str) -> Option<char> {
    ['"', '\'']
        .into_iter()
        .find(|quote| value.starts_with(*quote) || value.ends_with(*quote))
}

/// Returns where a comment begins in the value.
fn comment(value: &str) -> Option<usize> {
    match (value.find(" #"), value.find("\t#")) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
