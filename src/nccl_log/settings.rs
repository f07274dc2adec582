//! Settings that NCCL says it read.

use std::collections::BTreeMap;

use super::limits::{SOME, clipped, is_too_long, quoted, text};

/// Values of one setting that are told apart.
const VALUES: usize = 32;

/// One value of a setting.
#[derive(Debug)]
struct ReadValue {
    /// How often NCCL says that it read it.
    times: u64,
    /// The first line that says so.
    line: String,
}

/// Settings that NCCL says it read from the environment or a file.
#[derive(Debug, Default)]
pub(super) struct ReadSettings(BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, ReadValue>>);

impl ReadSettings {
    /// Adds what `line` says: that `name` is set to `value`.
    pub(super) fn add(&mut self, line: &[u8], name: &[u8], value: &[u8]) {
        if is_too_long(name) || (self.0.len() >= SOME && !self.0.contains_key(name)) {
            return;
        }
        let values = match self.0.get_mut(name) {
            Some(values) => values,
            None => self.0.entry(name.to_vec()).or_default(),
        };
        let value = clipped(value);
        if let Some(known) = values.get_mut(value) {
            known.times += 1;
        } else if values.len() < VALUES {
            let line = quoted(line);
            values.insert(value.to_vec(), ReadValue { times: 1, line });
        }
    }

    /// Returns whether a process read `name` as one of `values`.
    pub(super) fn is_any(&self, name: &str, values: &[&str]) -> bool {
        let Some(read) = self.0.get(name.as_bytes()) else {
            return false;
        };
        values
            .iter()
            .any(|value| read.contains_key(value.as_bytes()))
    }

    /// Returns whether a process read `name` as one of `values`, and none read it as anything else.
    pub(super) fn is_only(&self, name: &str, values: &[&str]) -> bool {
        let Some(read) = self.0.get(name.as_bytes()) else {
            return false;
        };
        read.keys()
            .all(|value| values.iter().any(|known| known.as_bytes() == value))
    }

    /// Returns whether a process read `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name.as_bytes())
    }

    /// Returns a line per value of `name`.
    pub(super) fn lines(&self, name: &str) -> impl Iterator<Item = &String> {
        let values = self.0.get(name.as_bytes());
        values.into_iter().flatten().map(|(_, value)| &value.line)
    }

    /// Returns how often each value of each setting was read.
    pub(super) fn counts(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut counts = BTreeMap::<String, BTreeMap<String, u64>>::new();
        for (name, values) in &self.0 {
            let named = counts.entry(text(name)).or_default();
            for (value, read) in values {
                named.insert(text(value), read.times);
            }
        }
        counts
    }
}
