//! The operations that processes entered, as NCCL's subsystem COLL logs them.

use std::collections::HashMap;

use super::super::{
    limits::{MANY, clipped_text},
    line::Operation,
};

/// Processes that a list names.
const LISTED: usize = 64;

/// The last operation that a process entered, in its largest communicator.
#[derive(Debug)]
struct Last {
    process: String,
    ranks: u64,
    number: u64,
    name: String,
}

/// The last operation of each process.
#[derive(Debug, Default)]
pub(super) struct Entered(HashMap<u64, Last>);

impl Entered {
    /// Adds an operation of the process with this identity; `name` makes its name.
    pub(super) fn add(
        &mut self,
        identity: u64,
        operation: &Operation<'_>,
        name: impl FnOnce() -> String,
    ) {
        if let Some(last) = self.0.get_mut(&identity) {
            let is_later = (operation.ranks, operation.number) > (last.ranks, last.number);
            if is_later {
                last.ranks = operation.ranks;
                last.number = operation.number;
                if last.name.as_bytes() != operation.name {
                    last.name = clipped_text(operation.name);
                }
            }
        } else if self.0.len() < MANY {
            let last = Last {
                process: name(),
                ranks: operation.ranks,
                number: operation.number,
                name: clipped_text(operation.name),
            };
            self.0.insert(identity, last);
        }
    }

    /// Returns the processes that are behind others of the largest communicator, at most 64, in the
    /// form `h:1 (AllReduce number 25 of 26)`.
    pub(super) fn behind(&self) -> Vec<String> {
        let ranks = self.0.values().map(|last| last.ranks).max();
        let of_largest = || self.0.values().filter(|last| Some(last.ranks) == ranks);
        let latest = of_largest()
            .map(|last| last.number)
            .max()
            .unwrap_or_default();
        let mut behind: Vec<String> = of_largest()
            .filter(|last| last.number < latest)
            .map(|last| {
                format!(
                    "{} ({} number {} of {latest})",
                    last.process, last.name, last.number
                )
            })
            .collect();
        behind.sort();
        behind.truncate(LISTED);
        behind
    }
}
