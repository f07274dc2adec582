//! The sizes of a sweep in one word: `1G`, `8:1G` or `8:1G:4`.

use std::str::FromStr;

use crate::units::Bytes;

/// The factor between sizes if none is given.
const DEFAULT_FACTOR: u32 = 2;

/// The sizes of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    smallest: Bytes,
    largest: Bytes,
    factor: u32,
}

impl SizeRange {
    /// Returns the options of the sweep that stand for these sizes.
    pub fn options(self) -> [String; 6] {
        let SizeRange {
            smallest,
            largest,
            factor,
        } = self;
        [
            "-b".into(),
            smallest.to_string(),
            "-e".into(),
            largest.to_string(),
            "-f".into(),
            factor.to_string(),
        ]
    }
}

impl FromStr for SizeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<SizeRange, String> {
        let mut parts = text.split(':');
        let smallest: Bytes = parts.next().unwrap_or_default().parse()?;
        let largest = match parts.next() {
            Some(largest) => largest.parse()?,
            None => smallest,
        };
        let factor = match parts.next() {
            Some(factor) => factor.parse().ok().filter(|factor| *factor > 1),
            None => Some(DEFAULT_FACTOR),
        };
        match factor {
            Some(factor) if parts.next().is_none() => Ok(SizeRange {
                smallest,
                largest,
                factor,
            }),
            _ => Err("sizes are MIN, MIN:MAX or MIN:MAX:FACTOR, such as 8:1G:4".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_options_of_the_sweep() {
        let options = |text: &str| {
            text.parse::<SizeRange>()
                .map(|sizes| sizes.options().join(" "))
        };
        assert_eq!(options("1M"), Ok("-b 1M -e 1M -f 2".into()));
        assert_eq!(options("8:1K"), Ok("-b 8 -e 1K -f 2".into()));
        assert_eq!(options("8:1K:4"), Ok("-b 8 -e 1K -f 4".into()));
        for wrong in ["", "x", "8:", "8:1K:1", "8:1K:2:3", ":8"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
