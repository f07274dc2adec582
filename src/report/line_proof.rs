//! [`LineProof`]: what NCCL's log shows about the cases of a line.

use std::collections::BTreeSet;

use super::report_row::ReportRow;

/// What NCCL's log shows about the cases of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct LineProof {
    /// Rows that used PXN.
    pub(super) used: u64,
    /// Rows that did not.
    pub(super) not_used: u64,
    /// Transports.
    pub(super) transports: BTreeSet<String>,
    /// Algorithms with their protocols.
    pub(super) algorithms: BTreeSet<String>,
}

impl LineProof {
    /// Adds what a row shows.
    pub(super) fn add(&mut self, row: &ReportRow) {
        match row.pxn {
            "used" => self.used += 1,
            "not used" => self.not_used += 1,
            _ => (),
        }
        remember(&mut self.transports, row.transport);
        if !row.algo.is_empty() && !self.algorithms.iter().any(|known| is(known, row)) {
            remember(&mut self.algorithms, &format!("{} {}", row.algo, row.proto));
        }
    }

    /// Returns whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.used + self.not_used == 0 && self.transports.is_empty() && self.algorithms.is_empty()
    }
}

fn is(known: &str, row: &ReportRow) -> bool {
    known.split_once(' ') == Some((row.algo, row.proto))
}

fn remember(words: &mut BTreeSet<String>, word: &str) {
    const MOST: usize = 12;
    if !word.is_empty() && words.len() < MOST && !words.contains(word) {
        words.insert(word.to_owned());
    }
}
