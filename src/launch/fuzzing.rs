//! What the fuzzer does with files of a launch.

use std::path::Path;

use super::{memo, site};

/// Reads a `launch.json`.
pub(crate) fn memo(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = memo::parse(&text);
}

/// Looks a line up in a `site.conf`.
pub(crate) fn site(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for what in [site::MPI, site::NCCL, site::PROGRAM, site::MPI_TYPE] {
        let words = site::words(Some((&text, Path::new("site.conf"))), what);
        assert!(words.contains(what) && words.len() < 200);
    }
}
