//! [`Step`]: the operations of a workload on a number of ranks.

use super::{group::Group, memory_copies::MemoryCopies};
use crate::{
    collective::Case,
    units::{Bytes, Micros},
};

/// The operations of a workload on a number of ranks. Each rank runs all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The names of the streams, in the order of their first operations.
    pub streams: Vec<String>,
    /// A communicator for each pair of stream and group, because all ranks must run its operations
    /// in the same order.
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

    /// Returns the most bytes that an operation copies.
    pub fn largest_copies(&self) -> Bytes {
        let mut largest = Bytes(0);
        for operation in &self.operations {
            if let StepWork::Copies(copies) = &operation.work {
                largest = largest.max(copies.bytes);
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
    /// The index of the only stream that uses it.
    pub stream: usize,
    /// The ranks.
    pub group: Group,
}

/// An operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOperation {
    /// The name.
    pub name: String,
    /// The index of the stream.
    pub stream: usize,
    /// The indices of the operations that must end before this one begins.
    pub after: Vec<usize>,
    /// The work.
    pub work: StepWork,
}

/// The work of an operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepWork {
    /// Keeps the device busy for this time if nothing else runs on it.
    Compute(Micros),
    /// Copies within the memory of the device, which is part of communication.
    Copies(MemoryCopies),
    /// Runs a collective.
    Collective {
        /// The index of the communicator.
        communicator: usize,
        /// The collective on the ranks of the communicator.
        case: Case,
    },
}
