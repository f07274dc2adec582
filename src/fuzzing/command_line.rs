//! The command line, a word per line.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use crate::{cmd::Cli, drop_in, sweep::plan::Plan};

/// The most words: a command line with more is not another one.
const MOST_WORDS: usize = 64;

/// Ranks of a sweep whose command line does not say.
const RANKS: u32 = 8;

/// Cases that are planned.
const CASES: usize = 10_000;

/// Parses the words, and plans the sweep that they ask for.
pub(super) fn read(bytes: &[u8]) {
    // No word has a null byte.
    let words = bytes.split(|byte| [b'\n', 0].contains(byte));
    let words = words
        .take(MOST_WORDS)
        .map(|word| OsStr::from_bytes(word).to_owned());
    let mut words: Vec<OsString> = words.collect();
    let is_other_name = words
        .first()
        .is_some_and(|name| drop_in::program_name(name).is_some());
    if !is_other_name {
        words.insert(0, "pxnbench".into());
    }
    let cli = match Cli::parse_words(&drop_in::words(words)) {
        Ok(cli) => cli,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let _ = cli.launches();
    if cli.command.is_some() {
        return;
    }
    let Ok(request) = cli.sweep.request() else {
        return;
    };
    let ranks = request.planned_ranks.unwrap_or(RANKS).into();
    if Plan::is_sane(&request.spec, ranks) && request.spec.sizes().take(CASES).count() < CASES {
        let plan = Plan::new(&request.spec, ranks);
        for case in plan.cases() {
            assert!(!case.to_string().is_empty());
        }
    }
}
