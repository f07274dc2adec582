//! [`Unread`]: the parts of a trace that could not be read.

use std::collections::BTreeMap;

/// The parts that could not be read, with the number of times that each occurs.
#[derive(Default)]
pub(super) struct Unread(BTreeMap<String, usize>);

impl Unread {
    pub(super) fn note(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Returns the first part in brackets, with its number, for the end of a sentence; an empty
    /// text if there is none.
    pub(super) fn first(&self) -> String {
        let first = self.0.iter().next();
        let in_brackets = |(what, number)| format!(" ({what}, {number} times)");
        first.map(in_brackets).unwrap_or_default()
    }

    /// Returns each part with its number.
    pub(super) fn counted(self) -> Vec<(String, usize)> {
        self.0.into_iter().collect()
    }
}
