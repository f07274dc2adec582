//! Versions of NCCL.

use std::{ffi::c_int, fmt};

/// The oldest NCCL that this program runs with: the first that has all the configuration and types.
pub(super) const OLDEST: NcclVersion = NcclVersion(21800);

/// A version of NCCL in the encoding of `ncclGetVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NcclVersion(pub c_int);

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Up to 2.8 the code has one digit fewer.
        let unit = if self.0 < 10_000 { 1000 } else { 10_000 };
        write!(
            f,
            "{}.{}.{}",
            self.0 / unit,
            self.0 % unit / 100,
            self.0 % 100
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_decoded() {
        for (code, text) in [
            (2804, "2.8.4"),
            (20903, "2.9.3"),
            (21803, "2.18.3"),
            (22803, "2.28.3"),
            (23007, "2.30.7"),
            (30000, "3.0.0"),
        ] {
            assert_eq!(NcclVersion(code).to_string(), text);
        }
        assert!(NcclVersion(2804) < OLDEST && NcclVersion(22803) > OLDEST);
    }
}
