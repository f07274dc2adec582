//! Variables that are words: one, several, or a list per collective.

use serde::Deserialize;

use super::{
    finding::{AuditContext, AuditFinding, describe, short},
    rule::Rule,
};
use crate::levels::conf::EffectiveValue;

/// A variable that is one or several words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Its name.
    pub name: String,
    /// The words that NCCL knows.
    pub among: Vec<String>,
    /// The separator of several words.
    between: Option<char>,
    /// Whether a `^` before the list excludes its words.
    #[serde(default)]
    not: bool,
    /// Whether words must be in capitals.
    #[serde(default)]
    exact: bool,
    /// A word that is followed by a number.
    number_after: Option<String>,
    /// What NCCL does with other words.
    #[serde(rename = "else")]
    pub otherwise: String,
}

/// A variable that is a list of words per collective.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// Its name.
    pub name: String,
    /// The words that NCCL knows.
    pub among: Vec<String>,
}

impl Words {
    /// Returns the meaningful values: `AUTO, ALL or MAX:N`, and how several are separated.
    pub fn legal(&self) -> String {
        let mut all = self.among.clone();
        if let Some(start) = &self.number_after {
            all.push(format!("{start}N"));
        }
        let mut text = one_of(&all);
        if let Some(between) = self.between {
            text += &format!("; several are separated by `{between}`");
        }
        if self.not {
            text += ", and `^` before the list means all but these";
        }
        if self.exact {
            text += "; in capitals";
        }
        text
    }

    fn has(&self, word: &str) -> bool {
        if self.exact {
            return self.among.iter().any(|known| known == word);
        }
        self.among
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
            || self
                .number_after
                .as_ref()
                .is_some_and(|start| is_numbered(word, start))
    }

    /// Reports the first word that NCCL does not know.
    pub(super) fn finding(&self, setting: &EffectiveValue) -> Option<AuditFinding> {
        let name = &self.name;
        let unknown = short(self.unknown(&setting.value)?);
        let sentence = format!(
            "{}: NCCL does not know {unknown} here; {}",
            describe(name, setting),
            self.otherwise
        );
        let exact = if self.exact { ", in capitals" } else { "" };
        let remedy = format!("use {}{exact}", one_of(&self.among));
        Some(AuditFinding::new(Rule::UnknownWord, name, sentence, remedy))
    }

    fn unknown<'a>(&self, value: &'a str) -> Option<&'a str> {
        let value = match value.strip_prefix('^') {
            Some(rest) if self.not => rest,
            _ => value,
        };
        match self.between {
            Some(between) => value
                .split(between)
                .find(|word| !word.is_empty() && !self.has(word)),
            None => (!self.has(value)).then_some(value),
        }
    }
}

/// Returns whether `word` is `start`, in any case, followed by a number above 0.
fn is_numbered(word: &str, start: &str) -> bool {
    let Some((begin, number)) = word.split_at_checked(start.len()) else {
        return false;
    };
    begin.eq_ignore_ascii_case(start) && number.parse::<u32>().is_ok_and(|number| number > 0)
}

/// The collectives that NCCL's lists name.
const COLLECTIVES: [&str; 5] = [
    "Broadcast",
    "Reduce",
    "AllGather",
    "ReduceScatter",
    "AllReduce",
];

impl Choices {
    fn has(&self, word: &str) -> bool {
        self.among
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
    }

    /// Returns the first part of the value that NCCL does not know.
    fn unknown<'a>(&self, value: &'a str) -> Option<&'a str> {
        let lists = value.split(';').filter(|list| !list.is_empty());
        for (at, list) in lists.enumerate() {
            let words = match list.split_once(':') {
                Some((collective, _)) if !is_collective(collective) => return Some(collective),
                Some((_, words)) => words,
                // Only the first list may be for all collectives.
                None if at > 0 => return Some(list),
                None => list,
            };
            let words = words.strip_prefix('^').unwrap_or(words).split(',');
            for word in words {
                if !word.is_empty() && !self.has(word) {
                    return Some(word);
                }
            }
        }
        None
    }

    /// Reports the first part of the value that NCCL does not know.
    pub(super) fn finding(
        &self,
        known: &AuditContext,
        setting: &EffectiveValue,
    ) -> Option<AuditFinding> {
        let name = &self.name;
        let unknown = short(self.unknown(&setting.value)?);
        let setting = describe(name, setting);
        let (rule, sentence) = if known.nccl.is_some_and(|nccl| nccl < 22400) {
            let sentence = format!("{setting}: NCCL skips {unknown} and makes its own choice");
            (Rule::UnknownWord, sentence)
        } else {
            let sentence = format!(
                "{setting}: NCCL does not know {unknown} here; since 2.24 it ends with an error"
            );
            (Rule::FailingWord, sentence)
        };
        let remedy = format!("use one or more of {}", self.among.join(", "));
        Some(AuditFinding::new(rule, name, sentence, remedy))
    }
}

fn is_collective(name: &str) -> bool {
    COLLECTIVES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

fn one_of(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
