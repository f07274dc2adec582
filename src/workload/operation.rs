//! [`Workload`]: the operations of a training step, independent of the number of ranks.

use std::collections::BTreeSet;

use super::{group::Dimension, memory_copies::MemoryCopies};
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::{Bytes, Micros},
};

/// The operations of a training step. All ranks run the same ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The name.
    pub name: String,
    /// What it stands for and where its numbers come from, in a sentence or two.
    pub about: String,
    /// The dimensions by which ranks divide the work. The first varies fastest from rank to rank.
    pub dimensions: Vec<Dimension>,
    /// The operations in the order in which they are issued.
    pub operations: Vec<Operation>,
}

/// An operation of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The name, which no other operation of the workload has.
    pub name: String,
    /// The name of the stream. Its operations run one after another.
    pub stream: String,
    /// The indices of the operations that must end before this one begins. All of them come before
    /// it in the workload.
    pub after: Vec<usize>,
    /// The work.
    pub work: Work,
}

/// The work of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Keeps the device busy for this time if nothing else runs on it.
    Compute(Micros),
    /// Copies within the memory of the device. They are part of communication: a step that only
    /// computes has none.
    Copies(MemoryCopies),
    /// Runs a collective.
    Collective(CollectiveCall),
}

/// A collective of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveCall {
    /// The collective.
    pub collective: Collective,
    /// The size as nccl-tests counts it: bytes of the larger buffer.
    pub size: Bytes,
    /// The element type.
    pub dtype: DType,
    /// The reduction; `None` if elements are only moved.
    pub redop: Option<RedOp>,
    /// The root in its communicator; `None` if the collective has none.
    pub root: Option<u32>,
    /// The names of the dimensions in which the ranks of its communicator differ; they agree in the
    /// others.
    pub group: BTreeSet<String>,
    /// How an alltoallv divides its size between ranks; `None` for all others.
    pub traffic: Option<&'static Traffic>,
}
