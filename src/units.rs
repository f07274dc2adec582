//! The quantities of a benchmark, with their units in the type: [`Bytes`], [`Micros`], [`GBps`].
//!
//! As in nccl-tests, sizes are binary (`1K` is 1024 bytes) and bandwidths are decimal (1 GB/s is
//! 10⁹ bytes per second).

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A time in microseconds. One that is read is finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Micros(pub f64);

/// A bandwidth in decimal gigabytes per second. One that is read is finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct GBps(pub f64);

/// What is said of a number in a file that is infinite, or not a number.
pub const NOT_FINITE: &str = "it is not a finite number";

impl TryFrom<f64> for Micros {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Micros, &'static str> {
        value.is_finite().then_some(Micros(value)).ok_or(NOT_FINITE)
    }
}

impl From<Micros> for f64 {
    fn from(time: Micros) -> f64 {
        time.0
    }
}

impl TryFrom<f64> for GBps {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<GBps, &'static str> {
        value.is_finite().then_some(GBps(value)).ok_or(NOT_FINITE)
    }
}

impl From<GBps> for f64 {
    fn from(bandwidth: GBps) -> f64 {
        bandwidth.0
    }
}

/// Suffixes of a size and the power of two each stands for.
const SUFFIXES: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

impl FromStr for Bytes {
    type Err = String;

    /// Reads `8`, `64K`, `1.5G`, `1GB`, `8KiB`, `1e6`: a number, then an optional K, M, G or T
    /// (either case, powers of 1024), then an optional `B` or `iB`.
    ///
    /// # Errors
    /// Returns an error that says what is wrong, without the value, which the caller names.
    fn from_str(text: &str) -> Result<Self, String> {
        const HOW: &str =
            "a size is a number with an optional K, M, G or T, such as 8, 64K or 1.5G";
        let text = text.trim();
        // The longest prefix that is a number; splitting at the first letter would break `1e6`.
        let digits = (1..=text.len())
            .rev()
            .find(|&end| text.is_char_boundary(end) && is_plain_number(&text[..end]))
            .ok_or(HOW)?;
        let number: f64 = text[..digits].parse().map_err(|_| HOW)?;
        let power = suffix_power(&text[digits..]).ok_or(HOW)?;
        let bytes = number * f64::from(2_u32).powi(power as i32);
        if bytes >= u64::MAX as f64 {
            return Err("that is more bytes than fit into 64 bits".into());
        }
        Ok(Bytes(bytes as u64))
    }
}

/// Returns whether this is a decimal number: no sign, `inf` or `nan`.
fn is_plain_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

/// Returns the power of two of a size's suffix (`""`, `K`, `KB`, `KiB`, `B`, …); `None` for
/// anything else.
fn suffix_power(suffix: &str) -> Option<u32> {
    let upper = suffix.trim().to_ascii_uppercase();
    if matches!(upper.as_str(), "" | "B") {
        return Some(0);
    }
    let mut chars = upper.chars();
    let letter = chars.next()?;
    let power = SUFFIXES.iter().find(|(c, _)| *c == letter)?.1;
    matches!(chars.as_str(), "" | "B" | "IB").then_some(power)
}

impl fmt::Display for Bytes {
    /// Prints a size that [`Bytes::from_str`] reads back to the same number: `8`, `64K`, `1.5G`, or
    /// plain bytes if no short form is exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, power) in SUFFIXES.iter().rev() {
            let unit = 1_u64 << power;
            if self.0 >= unit && self.0.is_multiple_of(unit / 4) {
                let quarters = self.0 / (unit / 4);
                return match quarters % 4 {
                    0 => write!(f, "{}{letter}", quarters / 4),
                    2 => write!(f, "{}.5{letter}", quarters / 4),
                    1 => write!(f, "{}.25{letter}", quarters / 4),
                    _ => write!(f, "{}.75{letter}", quarters / 4),
                };
            }
        }
        write!(f, "{}", self.0)
    }
}

impl From<Duration> for Micros {
    fn from(duration: Duration) -> Self {
        Micros(duration.as_secs_f64() * 1e6)
    }
}

impl GBps {
    /// Returns the bandwidth of `bytes` moved in `time`; 0 if no time passed.
    pub fn average(bytes: Bytes, time: Micros) -> GBps {
        if time.0 > 0.0 {
            GBps(bytes.0 as f64 / 1e3 / time.0)
        } else {
            GBps(0.0)
        }
    }
}

/// Returns a number with its noun: `1 rank`, `2 ranks`, `3 processes`, `4 copies`. In a noun that
/// ends in y, a consonant comes before it.
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if let Some(stem) = noun.strip_suffix('y')
        && number != N::from(1)
    {
        return format!("{number} {stem}ies");
    }
    let ending = match (number == N::from(1), noun.ends_with('s')) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Returns `value` rounded to so many significant `digits`, at least one.
pub fn significant(value: f64, digits: usize) -> f64 {
    let decimals = digits.saturating_sub(1);
    format!("{value:.decimals$e}").parse().unwrap_or(value)
}

/// Returns the 64-bit FNV-1a hash of `bytes`. It is the same in every version.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_people_type() {
        for (text, bytes) in [
            ("8", 8),
            ("8B", 8),
            ("64K", 65_536),
            ("1k", 1024),
            ("1.5G", 1_610_612_736),
            ("1GB", 1 << 30),
            ("8KiB", 8192),
            ("1e6", 1_000_000),
            ("1E3K", 1_024_000),
            ("2T", 2 << 40),
            (".5M", 524_288),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "",
            "K",
            "12Q",
            "-1",
            "1KK",
            "1K2",
            "abc",
            "inf",
            "nan",
            "1e30",
            "0x10",
            "1 000",
            "16777216T",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn bandwidth_is_decimal() {
        assert_eq!(GBps::average(Bytes(1_000_000_000), Micros(1e6)), GBps(1.0));
        assert_eq!(GBps::average(Bytes(8), Micros(0.0)), GBps(0.0));
    }

    proptest! {
        #[test]
        fn a_printed_size_reads_back(bytes in 0..1_u64 << 50, shift in 0..40_u32) {
            for bytes in [bytes, (bytes >> shift) << shift] {
                prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
            }
        }
    }

    #[test]
    fn a_noun_follows_its_number() {
        assert_eq!(counted(1_u64, "rank"), "1 rank");
        assert_eq!(counted(0_usize, "rank"), "0 ranks");
        assert_eq!(counted(2_u32, "process"), "2 processes");
        assert_eq!(counted(1_u64, "copy"), "1 copy");
        assert_eq!(counted(483_u64, "copy"), "483 copies");
    }
}
