//! How NCCL reads a value, which is not always how a reader would: `NCCL_PXN_DISABLE=true` is 0, and what it does not
//! understand it mostly ignores without a word.

use serde::{Deserialize, Serialize};

use super::TABLE;

/// How a variable is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ParseRule {
    /// By strtoll, with base 0.
    Integer,
    /// As a distance in the topology.
    Path,
    /// As it stands.
    Word,
}

/// What is known of a variable.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub(super) name: String,
    pub(super) reads: ParseRule,
    /// The integers that mean something; empty where that is a range, or no integer.
    #[serde(default)]
    pub(super) legal: Vec<i64>,
    /// The smallest and the largest.
    pub(super) range: Option<(i64, i64)>,
    /// Does NCCL round others up?
    #[serde(default)]
    pub(super) power_of_2: bool,
    /// Must it be a multiple of this?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) multiple_of: Option<i64>,
    /// Where NCCL 2.30.7 reads it, below `src/`.
    pub(super) source: String,
}

/// How a value is not read as it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misreading {
    /// NCCL takes its default, without a word.
    Ignored,
    /// NCCL reads this integer, which is not what stands there.
    As(i64),
    /// NCCL reads it, and it means nothing, or what another value means.
    Meaningless,
}

/// What the table says of this variable.
pub fn variable(name: &str) -> Option<&'static Variable> {
    TABLE.variable.iter().find(|variable| variable.name == name)
}

/// The distances of NCCL's topology. Older versions know fewer.
const PATHS: [&str; 10] = [
    "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS",
];

/// What the old numbers of distances mean; larger ones are the last.
const OLD_PATHS: [&str; 5] = ["LOC", "PIX", "PXB", "PHB", "SYS"];

/// The integer that strtoll makes of `value`, and what is left of it; `None` where NCCL takes its default: `value` is
/// empty, or too large.
fn strtoll(value: &str) -> Option<(i64, &str)> {
    if value.is_empty() {
        return None;
    }
    let text = value.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let negative = text.starts_with('-');
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match hex {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => (hex, 16),
        _ if text.starts_with('0') => (text, 8),
        _ => (text, 10),
    };
    let end = digits
        .find(|c: char| !c.is_digit(base))
        .unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    match number {
        "" => Some((0, value)),
        _ => i64::from_str_radix(
            &format!("{}{number}", if negative { "-" } else { "" }),
            base,
        )
        .ok()
        .map(|n| (n, rest)),
    }
}

/// The integer that NCCL reads from `value`; `None` where it takes its default.
pub fn integer(value: &str) -> Option<i64> {
    strtoll(value).map(|(number, _)| number)
}

/// The distance that NCCL reads from `value`; `None` where it ignores it.
pub fn path(value: &str) -> Option<&'static str> {
    let old = || {
        let number = value
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| integer(value))??;
        OLD_PATHS.get(number as usize).or(OLD_PATHS.last())
    };
    PATHS
        .iter()
        .find(|path| **path == value)
        .or_else(old)
        .copied()
}

impl Variable {
    /// Where `value` is not read as it looks, the sentence that says so and what to write.
    pub fn misread(&self, value: &str) -> Option<String> {
        let Variable { name, .. } = self;
        let (how, advice) = self.misread_as(value)?;
        Some(match how {
            Misreading::Ignored if self.reads == ParseRule::Integer => {
                format!("NCCL ignores {name}={value}, which is too large; {advice}")
            }
            Misreading::Ignored => format!("NCCL ignores {name}={value}; {advice}"),
            Misreading::As(number) => format!("NCCL reads {name}={value} as {number}; {advice}"),
            Misreading::Meaningless => {
                format!("{name}={value} has no meaning of its own; {advice}")
            }
        })
    }

    /// How `value` is not read as it looks, and what to write.
    pub(super) fn misread_as(&self, value: &str) -> Option<(Misreading, String)> {
        match self.reads {
            // An empty integer is the default: that is what it looks like.
            ParseRule::Integer if !value.is_empty() => {
                let how = match strtoll(value) {
                    None => Misreading::Ignored,
                    Some((number, rest)) if !rest.trim().is_empty() => Misreading::As(number),
                    Some((number, _)) if !self.is_legal(number) => Misreading::Meaningless,
                    Some(_) => return None,
                };
                Some((how, self.advice()))
            }
            ParseRule::Path if path(value).is_none() => {
                let capitals = value.to_ascii_uppercase();
                let advice = if PATHS.contains(&capitals.as_str()) {
                    &capitals
                } else {
                    "LOC, NVL, PIX, PXB, PHB or SYS"
                };
                Some((Misreading::Ignored, format!("say {advice}")))
            }
            _ => None,
        }
    }

    fn is_legal(&self, number: i64) -> bool {
        let in_range = self
            .range
            .is_none_or(|(low, high)| (low..=high).contains(&number));
        let listed = self.legal.is_empty() || self.legal.contains(&number);
        let multiple = self.multiple_of.is_none_or(|of| number % of == 0);
        listed && in_range && multiple && (!self.power_of_2 || number.count_ones() == 1)
    }

    pub(super) fn advice(&self) -> String {
        let legal: Vec<_> = self.legal.iter().map(i64::to_string).collect();
        let what = match self.multiple_of {
            Some(of) => format!("a multiple of {of}"),
            None if self.power_of_2 => "a power of 2".to_owned(),
            None => "a number".to_owned(),
        };
        match (legal.split_last(), self.range) {
            (Some((last, rest)), _) => format!("say {} or {last}", rest.join(", ")),
            (None, Some((low, high))) => format!("say {what} from {low} to {high}"),
            (None, None) => format!("say {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strtoll_does() {
        for (value, read) in [
            ("1", Some(1)),
            (" 2", Some(2)),
            ("+3", Some(3)),
            ("-2", Some(-2)),
            ("0x10", Some(16)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("0x", Some(0)),
            ("09", Some(0)),
            ("1 # comment", Some(1)),
            ("true", Some(0)),
            ("on", Some(0)),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(integer(value), read, "{value:?}");
        }
    }

    #[test]
    fn distances_are_names_in_capitals_or_old_numbers() {
        for (value, read) in [
            ("NVL", Some("NVL")),
            ("nvl", None),
            ("0", Some("LOC")),
            ("2", Some("PXB")),
            ("5", Some("SYS")),
            ("99", Some("SYS")),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(path(value), read, "{value:?}");
        }
    }

    #[test]
    fn a_value_that_is_not_read_as_it_looks_is_told() {
        let misread = |name: &str, value: &str| variable(name).expect("known").misread(value);
        let told = |name: &str, value: &str| misread(name, value).unwrap_or_default();
        assert_eq!(
            told("NCCL_PXN_DISABLE", "true"),
            "NCCL reads NCCL_PXN_DISABLE=true as 0; say 0 or 1"
        );
        assert_eq!(
            told("NCCL_P2P_PXN_LEVEL", "3"),
            "NCCL_P2P_PXN_LEVEL=3 has no meaning of its own; say 0, 1 or 2"
        );
        assert_eq!(
            told("NCCL_P2P_LEVEL", "nvl"),
            "NCCL ignores NCCL_P2P_LEVEL=nvl; say NVL"
        );
        assert!(told("NCCL_NET_GDR_LEVEL", "near").ends_with("say LOC, NVL, PIX, PXB, PHB or SYS"));
        assert!(told("NCCL_MIN_P2P_NCHANNELS", "24").ends_with("say a power of 2 from 1 to 64"));
        for (name, value) in [
            ("NCCL_PXN_DISABLE", "1 "),
            ("NCCL_PXN_DISABLE", ""),
            ("NCCL_P2P_LEVEL", "3"),
            ("NCCL_MIN_P2P_NCHANNELS", "32"),
            ("NCCL_NET", "anything"),
        ] {
            assert_eq!(misread(name, value), None, "{name}={value}");
        }
    }
}
