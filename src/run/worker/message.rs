//! What a rank and its worker say to each other: one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::{
    backend::options::LocalRanks,
    collective::traffic::Traffic,
    nccl_log::{AlgorithmChoice, Connections},
    units::Bytes,
};

/// What a worker must know: the ranks and GPUs of the process that started it, and the sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::run) struct WorkerStart {
    pub(in crate::run) local_ranks: LocalRanks,
    /// Whether the GPUs of all ranks can reduce 8-bit floats.
    pub(in crate::run) float8: bool,
    /// The pattern of an alltoallv.
    pub(in crate::run) traffic: Traffic,
    /// The smallest and largest size, if they are not those of the command line.
    pub(in crate::run) sizes: Option<(Bytes, Bytes)>,
}

/// To the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::run) enum ToWorker {
    Start(WorkerStart),
    /// NCCL's unique id.
    Id(Vec<u8>),
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::run) enum FromWorker {
    /// It has loaded NCCL; from the worker of the first rank with NCCL's unique id, else empty: who
    /// makes the id has to live until all have joined.
    Ready(Vec<u8>),
    /// It has run all cases.
    Ended(Box<WorkerReport>),
    /// It could not.
    Failed(String),
}

/// What a worker observed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::run) struct WorkerReport {
    /// Algorithm and protocol of each case of the plan; `None` if NCCL's log names none.
    pub(in crate::run) choices: Vec<Option<AlgorithmChoice>>,
    /// The connections in the worker's log.
    pub(in crate::run) seen: Connections,
    /// Why none, or not all, of them are relayed, as a sentence.
    pub(in crate::run) reason: String,
}
