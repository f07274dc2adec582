//! How NCCL reads a value, which is not always how a person would: `NCCL_PXN_DISABLE=true` is 0,
//! and NCCL silently ignores most values that it does not understand.

use serde::{Deserialize, Serialize};

/// The way NCCL reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ParseRule {
    /// As an integer, by strtoll with base 0.
    Integer,
    /// As a distance in the topology.
    Path,
    /// As text.
    Word,
}

/// The entry of the tables for a variable.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub(super) name: String,
    pub(super) reads: ParseRule,
    /// The meaningful integers; empty if they are a range, or if the value is not an integer.
    #[serde(default)]
    pub(super) legal: Vec<i64>,
    /// The smallest and the largest meaningful integer.
    pub(super) range: Option<(i64, i64)>,
    /// Whether NCCL rounds other integers up to a power of 2.
    #[serde(default)]
    pub(super) power_of_2: bool,
    /// A number that the value must be a multiple of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) multiple_of: Option<i64>,
    /// The file in which NCCL 2.30.7 reads it, below `src/`.
    pub(super) source: String,
}

/// The way in which NCCL's reading of a value differs from how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misreading {
    /// NCCL silently uses its default.
    Ignored,
    /// NCCL reads this integer, which is not what was written.
    As(i64),
    /// NCCL reads the value, but it means nothing, or the same as another value.
    Meaningless,
}

/// The distances of NCCL's topology. Older versions know fewer of them.
const PATHS: [&str; 10] = [
    "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS",
];

/// The distances that the old numbers mean; larger numbers mean the last one.
const OLD_PATHS: [&str; 5] = ["LOC", "PIX", "PXB", "PHB", "SYS"];

/// The result of strtoll for a text.
struct Parsed<'a> {
    number: i64,
    /// The text after the number; all of it if there is no number.
    rest: &'a str,
}

/// Parses `value` like strtoll with base 0. `None` if NCCL uses its default: `value` is empty, or
/// too large.
fn strtoll(value: &str) -> Option<Parsed<'_>> {
    if value.is_empty() {
        return None;
    }
    let text = value.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let sign = if text.starts_with('-') { "-" } else { "" };
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
    let (digits, rest) = digits.split_at(end);
    if digits.is_empty() {
        return Some(Parsed {
            number: 0,
            rest: value,
        });
    }
    let number = i64::from_str_radix(&format!("{sign}{digits}"), base).ok()?;
    Some(Parsed { number, rest })
}

/// Returns the integer that NCCL reads from `value`; `None` if NCCL uses its default.
pub fn integer(value: &str) -> Option<i64> {
    Some(strtoll(value)?.number)
}

/// Returns the distance that NCCL reads from `value`; `None` if NCCL ignores it.
pub fn path(value: &str) -> Option<&'static str> {
    if let Some(path) = PATHS.into_iter().find(|path| *path == value) {
        return Some(path);
    }
    if !value.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let number = integer(value)? as usize;
    Some(OLD_PATHS[number.min(OLD_PATHS.len() - 1)])
}

impl Variable {
    /// Returns a sentence that says how NCCL misreads `value` and what to write instead; `None` if
    /// NCCL reads it as it looks.
    pub fn misread(&self, value: &str) -> Option<String> {
        let Variable { name, .. } = self;
        let (misreading, advice) = self.misread_as(value)?;
        Some(match misreading {
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

    /// Returns how NCCL misreads `value`, and what to write instead; `None` if NCCL reads it as it
    /// looks.
    pub(super) fn misread_as(&self, value: &str) -> Option<(Misreading, String)> {
        match self.reads {
            ParseRule::Integer => Some((self.misread_integer(value)?, self.advice())),
            ParseRule::Path if path(value).is_none() => {
                Some((Misreading::Ignored, path_advice(value)))
            }
            ParseRule::Path | ParseRule::Word => None,
        }
    }

    fn misread_integer(&self, value: &str) -> Option<Misreading> {
        // An empty value means the default, as it appears to.
        if value.is_empty() {
            return None;
        }
        let Some(Parsed { number, rest }) = strtoll(value) else {
            return Some(Misreading::Ignored);
        };
        if !rest.trim().is_empty() {
            return Some(Misreading::As(number));
        }
        (!self.is_legal(number)).then_some(Misreading::Meaningless)
    }

    fn is_legal(&self, number: i64) -> bool {
        if !self.legal.is_empty() && !self.legal.contains(&number) {
            return false;
        }
        if self.power_of_2 && number.count_ones() != 1 {
            return false;
        }
        let in_range = self
            .range
            .is_none_or(|(low, high)| (low..=high).contains(&number));
        in_range && self.multiple_of.is_none_or(|divisor| number % divisor == 0)
    }

    /// Returns the remedy: `use 0 or 1`.
    fn advice(&self) -> String {
        format!("use {}", self.legal_values())
    }

    /// Returns the meaningful values: `0, 1 or 2`, `a power of 2 from 1 to 64`, `a number`.
    pub(super) fn legal_values(&self) -> String {
        let legal: Vec<String> = self.legal.iter().map(i64::to_string).collect();
        if let Some((last, rest)) = legal.split_last() {
            return format!("{} or {last}", rest.join(", "));
        }
        let what = match self.multiple_of {
            Some(divisor) => format!("a multiple of {divisor}"),
            None if self.power_of_2 => "a power of 2".to_owned(),
            None => "a number".to_owned(),
        };
        match self.range {
            Some((low, high)) => format!("{what} from {low} to {high}"),
            None => what,
        }
    }
}

/// Returns the remedy for a distance that NCCL ignores.
fn path_advice(value: &str) -> String {
    let capitals = value.to_ascii_uppercase();
    if PATHS.contains(&capitals.as_str()) {
        format!("use {capitals}")
    } else {
        "use LOC, NVL, PIX, PXB, PHB or SYS".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::table;

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
    fn a_value_that_is_not_read_as_it_looks_is_reported() {
        let misread =
            |name: &str, value: &str| table::variable(name).expect("known").misread(value);
        let sentence = |name: &str, value: &str| misread(name, value).unwrap_or_default();
        assert_eq!(
            sentence("NCCL_PXN_DISABLE", "true"),
            "NCCL reads NCCL_PXN_DISABLE=true as 0; use 0 or 1"
        );
        assert_eq!(
            sentence("NCCL_P2P_PXN_LEVEL", "3"),
            "NCCL_P2P_PXN_LEVEL=3 has no meaning of its own; use 0, 1 or 2"
        );
        assert_eq!(
            sentence("NCCL_P2P_LEVEL", "nvl"),
            "NCCL ignores NCCL_P2P_LEVEL=nvl; use NVL"
        );
        assert!(
            sentence("NCCL_NET_GDR_LEVEL", "near").ends_with("use LOC, NVL, PIX, PXB, PHB or SYS")
        );
        assert!(
            sentence("NCCL_MIN_P2P_NCHANNELS", "24").ends_with("use a power of 2 from 1 to 64")
        );
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
