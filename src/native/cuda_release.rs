//! Releases of CUDA: which one a driver supports, and which one this program needs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A release of CUDA, such as 12.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CudaRelease {
    /// The first number. A driver runs what is built for any release with the same one.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

/// The oldest release whose driver accepts the PTX of our kernels.
pub const OLDEST: CudaRelease = release(12, 0);

const fn release(major: u32, minor: u32) -> CudaRelease {
    CudaRelease { major, minor }
}

/// The first number of the drivers that came with each release.
const DRIVERS: [(u32, CudaRelease); 23] = [
    (418, release(10, 1)),
    (440, release(10, 2)),
    (450, release(11, 0)),
    (455, release(11, 1)),
    (460, release(11, 2)),
    (465, release(11, 3)),
    (470, release(11, 4)),
    (495, release(11, 5)),
    (510, release(11, 6)),
    (515, release(11, 7)),
    (520, release(11, 8)),
    (525, release(12, 0)),
    (530, release(12, 1)),
    (535, release(12, 2)),
    (545, release(12, 3)),
    (550, release(12, 4)),
    (555, release(12, 5)),
    (560, release(12, 6)),
    (565, release(12, 7)),
    (570, release(12, 8)),
    (575, release(12, 9)),
    (580, release(13, 0)),
    (590, release(13, 1)),
];

impl CudaRelease {
    /// Returns the release as CUDA encodes it: 12.4 is 12040.
    pub const fn code(self) -> i32 {
        (self.major * 1000 + self.minor * 10) as i32
    }

    /// Returns the release that a driver supports, from a version such as `570.86.15`.
    pub fn of_driver(version: &str) -> Option<CudaRelease> {
        let branch: u32 = version.split('.').next()?.parse().ok()?;
        let known = DRIVERS.iter().rev().find(|(first, _)| *first <= branch);
        known.map(|(_, release)| *release)
    }
}

impl fmt::Display for CudaRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for CudaRelease {
    type Err = ();

    /// Reads the number at the start of a text such as `12.4`.
    fn from_str(text: &str) -> Result<CudaRelease, ()> {
        let (major, rest) = text.split_once('.').ok_or(())?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        Ok(CudaRelease {
            major: major.parse().map_err(drop)?,
            minor: rest[..digits].parse().map_err(drop)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_supports_the_release_it_came_with() {
        for (driver, expected) in [
            ("570.86.15", Some("12.8")),
            ("535.104.05", Some("12.2")),
            ("525.60.13", Some("12.0")),
            ("470.256.02", Some("11.4")),
            ("999.1", Some("13.1")),
            ("390.1", None),
            ("", None),
        ] {
            let release = CudaRelease::of_driver(driver).map(|release| release.to_string());
            assert_eq!(release.as_deref(), expected, "{driver}");
        }
        assert!(DRIVERS.is_sorted());
        assert_eq!(OLDEST.code(), 12000);
        assert_eq!("12.9\0NCCL".parse(), Ok(release(12, 9)));
        for text in ["12", "12.", "x.1", ""] {
            assert!(text.parse::<CudaRelease>().is_err(), "{text}");
        }
    }
}
