//! [`ElementEncoding`]: the bit format in which elements are generated.

use super::types::{DType, RedOp};

/// The encoding of generated elements: integers and raw bits by their width, floats by their
/// format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ElementEncoding {
    Bits8,
    Bits16,
    Bits32,
    Bits64,
    Half,
    Bfloat16,
    Float,
    Double,
    F8e4m3,
    F8e5m2,
}

impl ElementEncoding {
    /// Returns the encoding of `dtype` for `redop`. Without a reduction, a float is generated as
    /// raw bits.
    pub fn new(dtype: DType, redop: Option<RedOp>) -> ElementEncoding {
        match (dtype, redop) {
            (DType::Int8 | DType::Uint8, _) | (DType::F8e4m3 | DType::F8e5m2, None) => {
                ElementEncoding::Bits8
            }
            (DType::Half | DType::Bfloat16, None) => ElementEncoding::Bits16,
            (DType::Int32 | DType::Uint32, _) | (DType::Float, None) => ElementEncoding::Bits32,
            (DType::Int64 | DType::Uint64, _) | (DType::Double, None) => ElementEncoding::Bits64,
            (DType::Half, Some(_)) => ElementEncoding::Half,
            (DType::Bfloat16, Some(_)) => ElementEncoding::Bfloat16,
            (DType::Float, Some(_)) => ElementEncoding::Float,
            (DType::Double, Some(_)) => ElementEncoding::Double,
            (DType::F8e4m3, Some(_)) => ElementEncoding::F8e4m3,
            (DType::F8e5m2, Some(_)) => ElementEncoding::F8e5m2,
        }
    }

    /// Returns the bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            ElementEncoding::Bits8 | ElementEncoding::F8e4m3 | ElementEncoding::F8e5m2 => 1,
            ElementEncoding::Bits16 | ElementEncoding::Half | ElementEncoding::Bfloat16 => 2,
            ElementEncoding::Bits32 | ElementEncoding::Float => 4,
            ElementEncoding::Bits64 | ElementEncoding::Double => 8,
        }
    }

    /// Returns the bits of a float's significand, including the hidden one; `None` for integers.
    pub(super) fn significand(self) -> Option<u32> {
        match self {
            ElementEncoding::Bits8
            | ElementEncoding::Bits16
            | ElementEncoding::Bits32
            | ElementEncoding::Bits64 => None,
            ElementEncoding::Half => Some(11),
            ElementEncoding::Bfloat16 => Some(8),
            ElementEncoding::Float => Some(24),
            ElementEncoding::Double => Some(53),
            ElementEncoding::F8e4m3 => Some(4),
            ElementEncoding::F8e5m2 => Some(3),
        }
    }

    /// Returns the slots that contribute a power of two to a product: twice the exponent that
    /// cannot overflow or underflow.
    pub(super) fn product_window(self) -> u32 {
        match self {
            ElementEncoding::F8e4m3 => 2 * 6,
            ElementEncoding::Half | ElementEncoding::F8e5m2 => 2 * 12,
            ElementEncoding::Double => 2 * 1000,
            _ => 2 * 100,
        }
    }
}
