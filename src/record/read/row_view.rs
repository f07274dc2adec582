//! [`RowView`]: the cells of a row that readers of many rows need.

use serde::Deserialize;

use super::cells::{buffer_mode, number_of_ranks, redop, root};
use crate::{
    collective::{
        BufferMode, Collective,
        data::{DType, RedOp},
    },
    record::{BackendKind, Status},
    units::{Bytes, Micros},
};

/// What a row says of its case, its conditions and its time, without the rest, and with the words
/// as they stand in the file: for readers of many rows.
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(missing_docs, reason = "each field is a column of COLUMNS")]
pub struct RowView<'a> {
    pub collective: Collective,
    pub backend: BackendKind,
    pub level: &'a str,
    pub network: &'a str,
    pub resources: &'a str,
    pub repeat: u32,
    pub nodes: u32,
    #[serde(deserialize_with = "number_of_ranks")]
    pub ranks: u64,
    pub gpus_per_process: u32,
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    #[serde(rename = "type")]
    pub dtype: DType,
    #[serde(deserialize_with = "redop")]
    pub redop: Option<RedOp>,
    #[serde(deserialize_with = "root")]
    pub root: Option<u32>,
    #[serde(rename = "in_place", deserialize_with = "buffer_mode")]
    pub buffer_mode: BufferMode,
    pub iters: Option<u32>,
    #[serde(rename = "time_us")]
    pub time: Option<Micros>,
    pub status: Status,
    // Columns of later versions: absent from files of earlier ones.
    pub group: Option<u32>,
    #[serde(borrow, default)]
    pub pattern: &'a str,
    #[serde(borrow, default)]
    pub hosts: &'a str,
    #[serde(borrow, default)]
    pub device: &'a str,
    #[serde(borrow, default)]
    pub nccl_version: &'a str,
    #[serde(borrow, default)]
    pub mpi_version: &'a str,
}
