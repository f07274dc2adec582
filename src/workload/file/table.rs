//! [`WorkloadTable`]: the tables and keys of a workload's file.

use serde::{Deserialize, Serialize};

use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
    },
    units::{Bytes, Micros},
};

/// A file with a workload.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadTable {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) about: String,
    #[serde(default, rename = "dimension", skip_serializing_if = "Vec::is_empty")]
    pub(super) dimensions: Vec<DimensionTable>,
    #[serde(default, rename = "operation", skip_serializing_if = "Vec::is_empty")]
    pub(super) operations: Vec<OperationTable>,
}

/// A dimension.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DimensionTable {
    pub(super) name: String,
    pub(super) ranks: RanksText,
}

/// The number of ranks of a dimension.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "the ranks of a dimension are a number, or \"rest\""
)]
pub(super) enum RanksText {
    Number(u64),
    Word(RestWord),
}

/// The only word that stands for a number of ranks.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RestWord {
    Rest,
}

/// The pieces of copies that do not say how many they are.
pub(super) const ONE_PIECE: u32 = 1;

/// An operation: computation if it has `compute_us`, copies if it has `copy`, otherwise a
/// collective.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationTable {
    pub(super) name: String,
    pub(super) stream: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compute_us: Option<Micros>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<SizeText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pieces: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collective: Option<Collective>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<SizeText>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<DType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) redop: Option<RedOp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<GroupText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spread: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) matrix: Option<String>,
}

/// The size of a collective, or of copies.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a size is a number of bytes, or a text such as \"25M\""
)]
pub(super) enum SizeText {
    Bytes(u64),
    Text(String),
}

/// The dimensions in which the ranks of a group differ.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a group is the name of a dimension, or a list of names"
)]
pub(super) enum GroupText {
    One(String),
    Several(Vec<String>),
}

impl From<Bytes> for SizeText {
    fn from(size: Bytes) -> SizeText {
        SizeText::Text(size.to_string())
    }
}
