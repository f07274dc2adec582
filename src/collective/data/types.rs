//! Element types and reduction operations, by nccl-tests' names.

use serde::{Deserialize, Serialize};

/// An element type, by nccl-tests' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum DType {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Half,
    Float,
    Double,
    Bfloat16,
    F8e4m3,
    F8e5m2,
}

impl DType {
    /// All types, in the order of nccl-tests' `-d all`.
    pub const ALL: [DType; 12] = [
        DType::Int8,
        DType::Uint8,
        DType::Int32,
        DType::Uint32,
        DType::Int64,
        DType::Uint64,
        DType::Half,
        DType::Float,
        DType::Double,
        DType::Bfloat16,
        DType::F8e4m3,
        DType::F8e5m2,
    ];

    /// Returns nccl-tests' name.
    pub fn name(self) -> &'static str {
        match self {
            DType::Int8 => "int8",
            DType::Uint8 => "uint8",
            DType::Int32 => "int32",
            DType::Uint32 => "uint32",
            DType::Int64 => "int64",
            DType::Uint64 => "uint64",
            DType::Half => "half",
            DType::Float => "float",
            DType::Double => "double",
            DType::Bfloat16 => "bfloat16",
            DType::F8e4m3 => "f8e4m3",
            DType::F8e5m2 => "f8e5m2",
        }
    }

    /// Returns whether it is a float of 8 bits, which not every library and GPU supports.
    pub fn is_float8(self) -> bool {
        matches!(self, DType::F8e4m3 | DType::F8e5m2)
    }

    /// Returns whether it is a float.
    pub fn is_float(self) -> bool {
        self.is_float8()
            || matches!(
                self,
                DType::Half | DType::Bfloat16 | DType::Float | DType::Double
            )
    }

    /// Returns the bytes per element.
    pub fn size(self) -> u64 {
        match self {
            DType::Int8 | DType::Uint8 | DType::F8e4m3 | DType::F8e5m2 => 1,
            DType::Half | DType::Bfloat16 => 2,
            DType::Int32 | DType::Uint32 | DType::Float => 4,
            DType::Int64 | DType::Uint64 | DType::Double => 8,
        }
    }
}

/// A reduction, by nccl-tests' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum RedOp {
    Sum,
    Prod,
    Max,
    Min,
    Avg,
    MulSum,
}

impl RedOp {
    /// Returns whether each rank multiplies its input first.
    pub fn is_scaled(self) -> bool {
        matches!(self, RedOp::Avg | RedOp::MulSum)
    }

    /// All operations, in the order of nccl-tests' `-o all`.
    pub const ALL: [RedOp; 6] = [
        RedOp::Sum,
        RedOp::Prod,
        RedOp::Max,
        RedOp::Min,
        RedOp::Avg,
        RedOp::MulSum,
    ];

    /// Returns nccl-tests' name.
    pub fn name(self) -> &'static str {
        match self {
            RedOp::Sum => "sum",
            RedOp::Prod => "prod",
            RedOp::Max => "max",
            RedOp::Min => "min",
            RedOp::Avg => "avg",
            RedOp::MulSum => "mulsum",
        }
    }
}
