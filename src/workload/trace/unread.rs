//! [`Unread`]: what of a trace could not be read.

use std::collections::BTreeMap;

/// What could not be read, and how often it occurs.
#[derive(Default)]
pub(super) struct Unread(BTreeMap<String, usize>);

impl Unread {
    pub(super) fn note(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Returns each with its number.
    pub(super) fn counted(self) -> Vec<(String, usize)> {
        self.0.into_iter().collect()
    }
}
