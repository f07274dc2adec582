//! [`Workload`]: the operations of a training step, independent of the number of ranks.

use std::collections::BTreeSet;

use super::group::Dimension;
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::{Bytes, Micros},
};

/// The operations of one training step of one rank. All ranks have the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// What it stands for, and where its numbers are from, in a sentence or two.
    pub about: String,
    /// The ways in which ranks divide the work, such as data and tensor parallelism. The first varies fastest from rank to rank.
    pub dimensions: Vec<Dimension>,
    /// The operations in the order in which they are issued.
    pub operations: Vec<Operation>,
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Name, which no other operation of the workload has.
    pub name: String,
    /// The stream, whose operations run one after another.
    pub stream: String,
    /// The operations, by index, that end before this one begins. All come before it in the workload.
    pub after: Vec<usize>,
    /// What it does.
    pub work: Work,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Keeps the device busy for as long as given if nothing else runs on it.
    Compute(Micros),
    /// Runs a collective.
    Collective(CollectiveCall),
}

/// A collective of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveCall {
    /// Collective.
    pub collective: Collective,
    /// Its size as nccl-tests counts it: bytes of the larger buffer.
    pub size: Bytes,
    /// Element type.
    pub dtype: DType,
    /// The reduction; `None` if elements are only moved.
    pub redop: Option<RedOp>,
    /// The root in its communicator; `None` if the collective has none.
    pub root: Option<u32>,
    /// The names of the dimensions in which the ranks of its communicator differ; they agree in the others.
    pub group: BTreeSet<String>,
    /// How an alltoallv divides its size between ranks; `None` for all others.
    pub traffic: Option<&'static Traffic>,
}
