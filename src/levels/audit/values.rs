//! Values: does NCCL read one as it looks? `slurm/levels.toml` says how the variables of levels are read, `values.toml`
//! beside this file the others.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use super::{AuditContext, AuditFinding, Rule, say, short, shown};
use crate::levels::{
    conf::EffectiveValue,
    reading::{self, Misreading, ParseRule, Variable},
    selection::Selection,
};

/// Integers with one rule.
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

/// A variable that is one or several words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Its name.
    pub name: String,
    /// The words there are.
    pub among: Vec<String>,
    between: Option<char>,
    #[serde(default)]
    not: bool,
    #[serde(default)]
    exact: bool,
    number_after: Option<String>,
    /// What NCCL makes of others.
    #[serde(rename = "else")]
    pub otherwise: String,
}

/// A variable that is a list of words for each collective.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// Its name.
    pub name: String,
    /// The words there are.
    pub among: Vec<String>,
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

/// The table's integers as variables, with the sentence for what means nothing.
static INTEGERS: LazyLock<BTreeMap<&str, (Variable, Option<&str>)>> = LazyLock::new(|| {
    let of_group = |group: &'static Integers| {
        group.names.iter().map(|name| {
            let variable = Variable {
                name: name.clone(),
                reads: ParseRule::Integer,
                legal: group.legal.clone(),
                range: group.range,
                power_of_2: group.power_of_2,
                multiple_of: group.multiple_of,
                source: String::new(),
            };
            (name.as_str(), (variable, group.why.as_deref()))
        })
    };
    TABLE.integers.iter().flat_map(of_group).collect()
});

/// The groups of integers, for documents.
pub fn integers() -> &'static [Integers] {
    &TABLE.integers
}

/// The variables that are words, for documents.
pub fn words() -> &'static [Words] {
    &TABLE.words
}

/// The variables that are lists by collective, for documents.
pub fn choices() -> &'static [Choices] {
    &TABLE.choices
}

impl Integers {
    /// What means something: `0 or 1`, `a power of 2 from 4096 to 1073741824`; none where any integer does.
    pub fn legal(&self) -> Option<String> {
        let (variable, _) = &INTEGERS[self.names.first()?.as_str()];
        let any = self.legal.is_empty()
            && self.range.is_none()
            && !self.power_of_2
            && self.multiple_of.is_none();
        (!any).then(|| variable.advice().trim_start_matches("say ").to_owned())
    }
}

/// How an integer or a distance is read, and the sentence for what means nothing.
fn variable(name: &str) -> Option<(&'static Variable, Option<&'static str>)> {
    let own = || INTEGERS.get(name).map(|(variable, why)| (variable, *why));
    reading::variable(name)
        .map(|variable| (variable, None))
        .or_else(own)
}

/// Does a table say how this variable is read?
#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    variable(name).is_some()
        || TABLE.words.iter().any(|words| words.name == name)
        || TABLE.choices.iter().any(|choices| choices.name == name)
}

/// Lists of network interfaces or adapters.
const LISTS: [&str; 3] = ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_OOB_NET_IFNAME"];

/// Values that are not read as they look, of names that NCCL may read.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let read = known
        .settings
        .iter()
        .filter(|(name, _)| known.may_read(name));
    read.flat_map(|(name, setting)| of_value(known, name, setting))
        .collect()
}

fn of_value(known: &AuditContext, name: &str, setting: &EffectiveValue) -> Vec<AuditFinding> {
    let integer = variable(name).filter(|(variable, _)| variable.reads == ParseRule::Integer);
    if integer.is_none()
        && let Some(finding) = stray(name, setting)
    {
        return vec![finding];
    }
    if LISTS.contains(&name) {
        return list(known, name, setting);
    }
    let by_words = || TABLE.words.iter().find(|words| words.name == name);
    let by_choices = || TABLE.choices.iter().find(|choices| choices.name == name);
    let found = match variable(name) {
        Some((variable, why)) if variable.reads != ParseRule::Word => {
            misread(variable, why, setting)
        }
        _ => by_words()
            .and_then(|words| words.finding(setting))
            .or_else(|| by_choices().and_then(|choices| choices.finding(known, setting))),
    };
    found.into_iter().collect()
}

fn misread(
    variable: &Variable,
    why: Option<&str>,
    setting: &EffectiveValue,
) -> Option<AuditFinding> {
    let Variable { name, .. } = variable;
    let (how, remedy) = variable.misread_as(&setting.value)?;
    let said = say(name, setting);
    Some(match how {
        Misreading::As(number) => AuditFinding::new(
            Rule::MisreadInteger,
            name,
            format!("{said} is read as {number}: NCCL reads an integer"),
            remedy,
        ),
        Misreading::Ignored if variable.reads == ParseRule::Integer => AuditFinding::new(
            Rule::IgnoredValue,
            name,
            format!("{said} is ignored: it is too large for an integer"),
            remedy,
        ),
        Misreading::Ignored => {
            let sentence = format!(
                "{said} is silently ignored: NCCL knows distances in capitals, and the old numbers"
            );
            AuditFinding::new(Rule::IgnoredValue, name, sentence, remedy)
        }
        Misreading::Meaningless => {
            let why = why.unwrap_or("has no meaning of its own");
            AuditFinding::new(Rule::NoMeaning, name, format!("{said} {why}"), remedy)
        }
    })
}

/// Quotes, spaces and comments that are part of a value which is no integer; nothing at all.
fn stray(name: &str, setting: &EffectiveValue) -> Option<AuditFinding> {
    let value = setting.value.as_str();
    let may_be_told = LISTS.contains(&name)
        || variable(name).is_some()
        || TABLE.words.iter().any(|words| words.name == name)
        || TABLE.choices.iter().any(|choices| choices.name == name)
        || ["_FILE", "_PLUGIN"].iter().any(|end| name.ends_with(end));
    if !may_be_told {
        return None;
    }
    let said = say(name, setting);
    if value.is_empty() {
        // A distance or a network that is empty is told by what it does.
        let is_told = name == "NCCL_NET"
            || variable(name).is_some_and(|(variable, _)| variable.reads == ParseRule::Path);
        let sentence = format!(
            "{said} is set to nothing: NCCL goes on as if it were not set, and no nccl.conf sets it"
        );
        return (!is_told).then(|| {
            AuditFinding::new(
                Rule::EmptyValue,
                name,
                sentence,
                "unset it if that is not meant",
            )
        });
    }
    let quote = ['"', '\'']
        .into_iter()
        .find(|quote| value.starts_with(*quote) || value.ends_with(*quote));
    let what = match quote {
        Some(quote) => format!("the {quote} is part of the value"),
        None if value.contains(" #") || value.contains("\t#") => {
            "what follows # is part of the value".to_owned()
        }
        None if value.trim() != value => "the space at its edge is part of the value".to_owned(),
        None => return None,
    };
    let bare = value
        .split(" #")
        .next()
        .unwrap_or_default()
        .split("\t#")
        .next()
        .unwrap_or_default();
    let bare = bare.trim().trim_matches(['"', '\'']).trim();
    let shown = if value.trim() == value {
        said
    } else {
        format!("{said}, with a space,")
    };
    let remedy = format!("write {name}={}, and nothing else on the line", short(bare));
    Some(AuditFinding::new(
        Rule::StrayCharacters,
        name,
        format!("{shown} is not read as it looks: {what}"),
        remedy,
    ))
}

impl Words {
    /// What it may be: `AUTO, ALL or MAX:N`; several, with what stands between them.
    pub fn legal(&self) -> String {
        let number = self.number_after.iter().map(|start| format!("{start}N"));
        let all: Vec<String> = self.among.iter().cloned().chain(number).collect();
        let several = self.between.map_or(String::new(), |between| {
            format!("; several with `{between}` between them")
        });
        let not = if self.not {
            ", `^` before the list for all but these"
        } else {
            ""
        };
        let exact = if self.exact { "; in capitals" } else { "" };
        format!("{}{several}{not}{exact}", one_of(&all))
    }

    fn has(&self, word: &str) -> bool {
        let number = |start: &String| {
            let end = word
                .get(start.len()..)
                .filter(|_| word.is_char_boundary(start.len()));
            let starts = word
                .get(..start.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(start));
            starts
                && end
                    .and_then(|end| end.parse::<u32>().ok())
                    .is_some_and(|number| number > 0)
        };
        self.number_after.as_ref().is_some_and(number)
            || self.among.iter().any(|w| {
                if self.exact {
                    w == word
                } else {
                    w.eq_ignore_ascii_case(word)
                }
            })
    }

    fn finding(&self, setting: &EffectiveValue) -> Option<AuditFinding> {
        let Words { name, .. } = self;
        let value = setting.value.as_str();
        let value = if self.not {
            value.strip_prefix('^').unwrap_or(value)
        } else {
            value
        };
        let mut words: Vec<&str> = match self.between {
            Some(between) => value
                .split(between)
                .filter(|word| !word.is_empty())
                .collect(),
            None => vec![value],
        };
        words.retain(|word| !self.has(word));
        let word = words.first()?;
        let exact = if self.exact { ", in capitals" } else { "" };
        let sentence = format!(
            "{}: NCCL does not know {} there; {}",
            say(name, setting),
            short(word),
            self.otherwise
        );
        Some(AuditFinding::new(
            Rule::UnknownWord,
            name,
            sentence,
            format!("say {}{exact}", one_of(&self.among)),
        ))
    }
}

/// The collectives that NCCL's lists by collective name.
const COLLECTIVES: [&str; 5] = [
    "Broadcast",
    "Reduce",
    "AllGather",
    "ReduceScatter",
    "AllReduce",
];

impl Choices {
    /// The first part of the value that NCCL does not know.
    fn unknown<'a>(&self, value: &'a str) -> Option<&'a str> {
        let is_among =
            |list: &[&str], word: &str| list.iter().any(|w| w.eq_ignore_ascii_case(word));
        let among: Vec<&str> = self.among.iter().map(String::as_str).collect();
        let mut lists = value.split(';').filter(|list| !list.is_empty()).enumerate();
        lists.find_map(|(at, list)| {
            let (collective, words) = match list.split_once(':') {
                Some((collective, words)) => (Some(collective), words),
                None => (None, list),
            };
            match collective {
                // Only the first list may be for all collectives.
                None if at > 0 => return Some(list),
                Some(collective) if !is_among(&COLLECTIVES, collective) => return Some(collective),
                _ => {}
            }
            let words = words
                .strip_prefix('^')
                .unwrap_or(words)
                .split(',')
                .filter(|word| !word.is_empty());
            words.into_iter().find(|word| !is_among(&among, word))
        })
    }

    fn finding(&self, known: &AuditContext, setting: &EffectiveValue) -> Option<AuditFinding> {
        let Choices { name, among } = self;
        let word = short(self.unknown(&setting.value)?);
        let said = say(name, setting);
        let remedy = format!("say some of {}", among.join(", "));
        Some(if known.nccl.is_some_and(|nccl| nccl < 22400) {
            let sentence = format!("{said}: NCCL passes over {word}, and takes what it likes");
            AuditFinding::new(Rule::UnknownWord, name, sentence, remedy)
        } else {
            let sentence = format!(
                "{said}: NCCL does not know {word} there, and since 2.24 ends with an error"
            );
            AuditFinding::new(Rule::FailingWord, name, sentence, remedy)
        })
    }
}

fn one_of(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// A list is written out in a remedy, up to this many characters.
const LONGEST_LIST: usize = 1000;

/// A list of interfaces or adapters: `^` for all but these, then `=` for exactly these, then names.
fn list(known: &AuditContext, name: &str, setting: &EffectiveValue) -> Vec<AuditFinding> {
    let value = setting.value.as_str();
    let said = say(name, setting);
    let selection = Selection::of(value);
    let Selection {
        excludes: except,
        is_exact: exact,
        list: rest,
    } = selection;
    let mark = |entry: &str| entry.starts_with(['^', '=']) || entry.contains([' ', '\t']);
    let found = if selection.entries().any(mark) {
        let sentence = format!(
            "{said}: `^` and `=` stand once, in this order, before the whole list, and no spaces in it; NCCL looks for \
             a name that has them"
        );
        let sign = |there: bool, sign: char| {
            if there || value.contains(sign) {
                sign.to_string()
            } else {
                String::new()
            }
        };
        let signs = sign(except, '^') + &sign(exact, '=');
        let bare: Vec<&str> = selection
            .entries()
            .map(|entry| entry.trim_matches(['^', '=', ' ', '\t']))
            .collect();
        let remedy = format!(
            "write {name}={signs}{}",
            shown(&bare.join(","), LONGEST_LIST)
        );
        Some(AuditFinding::new(Rule::ListSyntax, name, sentence, remedy))
    } else if name == "NCCL_IB_HCA" && !exact {
        let entries: Vec<&str> = selection.names().collect();
        let other = entries
            .iter()
            .find_map(|entry| Some((*entry, also(entry, &entries, known.adapters)?)));
        other.map(|(entry, other)| {
            let entry = short(entry);
            let sentence =
                format!("{said}: without `=` NCCL takes every adapter whose name begins so: {entry} is {other} too");
            let except = if except { "^" } else { "" };
            AuditFinding::new(
                Rule::PrefixMatch,
                name,
                sentence,
                format!("write {name}={except}={}", shown(rest, LONGEST_LIST)),
            )
        })
    } else {
        None
    };
    found.into_iter().collect()
}

/// Another adapter whose name begins like this entry of a list and is not in the list: one that is there, or where that is
/// not known, one that may be.
fn also(entry: &str, entries: &[&str], adapters: Option<&[String]>) -> Option<String> {
    let digits = &entry[entry.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
    // `ibp` and `mlx5`, a driver's name, are meant as a beginning; `mlx5_0` has no longer names.
    if digits.is_empty() || digits == "0" || ["mlx4", "mlx5"].contains(&entry) {
        return None;
    }
    let Some(adapters) = adapters else {
        return Some(format!("{}0", short(entry)));
    };
    let is_other =
        |adapter: &&String| adapter.starts_with(entry) && !entries.contains(&adapter.as_str());
    adapters.iter().find(is_other).map(|adapter| short(adapter))
}
