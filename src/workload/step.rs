//! [`Step`]: a workload on a number of ranks.

use super::group::Group;
use crate::{
    collective::Case,
    units::{Bytes, Micros},
};

/// A workload on a number of ranks: what each of them runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The names of the streams, in the order of their first operations.
    pub streams: Vec<String>,
    /// One for each pair of stream and group, because operations of one communicator must have one order.
    pub communicators: Vec<Communicator>,
    /// The operations in the order in which they are issued.
    pub operations: Vec<StepOperation>,
}

impl Step {
    /// Returns the largest size of the collectives on communicator `index`.
    pub fn largest(&self, index: usize) -> Bytes {
        let mut largest = Bytes(0);
        for operation in &self.operations {
            if let StepWork::Collective { communicator, case } = &operation.work
                && *communicator == index
            {
                largest = largest.max(case.size());
            }
        }
        largest
    }
}

/// A communicator that a step uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Communicator {
    /// The dimensions in which its ranks differ, such as `data` or `data+expert`.
    pub name: String,
    /// The only stream that it is used in, by index.
    pub stream: usize,
    /// Its ranks.
    pub group: Group,
}

/// An operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOperation {
    /// Name.
    pub name: String,
    /// Its stream, by index.
    pub stream: usize,
    /// The operations, by index, that end before it begins.
    pub after: Vec<usize>,
    /// What it does.
    pub work: StepWork,
}

/// What an operation of a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum StepWork {
    /// Keeps the device busy for as long as given if nothing else runs on it.
    Compute(Micros),
    /// Runs a collective on one of the communicators, given by index.
    Collective {
        /// The communicator.
        communicator: usize,
        /// The collective, with the ranks of the communicator.
        case: Case,
    },
}
