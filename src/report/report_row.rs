//! [`ReportRow`]: the columns of a row that a report shows.

use serde::Deserialize;

use crate::{
    collective::Collective,
    record::{
        BackendKind, Status,
        read::{finite, number_of_ranks},
    },
    units::{GBps, Micros},
};

/// The columns of a row that a report shows.
#[derive(Deserialize)]
pub(super) struct ReportRow<'a> {
    pub(super) collective: Collective,
    pub(super) backend: BackendKind,
    pub(super) level: &'a str,
    pub(super) network: &'a str,
    pub(super) resources: &'a str,
    pub(super) nodes: u32,
    #[serde(deserialize_with = "number_of_ranks")]
    pub(super) ranks: u64,
    pub(super) gpus_per_process: u32,
    pub(super) size_bytes: u64,
    pub(super) r#type: &'a str,
    pub(super) redop: &'a str,
    pub(super) root: i64,
    pub(super) in_place: u8,
    pub(super) time_us: Option<Micros>,
    #[serde(rename = "busbw_GBps")]
    pub(super) busbw: Option<GBps>,
    pub(super) wrong: Option<u64>,
    pub(super) status: Status,
    pub(super) note: &'a str,
    // Columns of later versions: absent from files of earlier ones.
    pub(super) group: Option<u32>,
    #[serde(borrow, default)]
    pub(super) pattern: &'a str,
    #[serde(borrow, default)]
    pub(super) hosts: &'a str,
    #[serde(borrow, default)]
    pub(super) device: &'a str,
    #[serde(borrow, default)]
    pub(super) nccl_version: &'a str,
    #[serde(borrow, default)]
    pub(super) mpi_version: &'a str,
    #[serde(borrow, default)]
    pub(super) pxn: &'a str,
    #[serde(borrow, default)]
    pub(super) transport: &'a str,
    #[serde(borrow, default)]
    pub(super) algo: &'a str,
    #[serde(borrow, default)]
    pub(super) proto: &'a str,
    #[serde(default, deserialize_with = "finite")]
    pub(super) precision_pct: Option<f64>,
    #[serde(rename = "peak_GBps")]
    pub(super) peak: Option<GBps>,
}
