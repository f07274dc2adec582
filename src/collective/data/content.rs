//! [`Content`]: what a stretch of a buffer holds, and the number of ranks up to which that is
//! exact.

use super::{
    bits::narrow,
    encoding::ElementEncoding,
    types::{DType, RedOp},
};

/// The parameters that determine the data of a case, the same for all its buffers and ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataKey {
    /// Element type.
    pub dtype: DType,
    /// The reduction for which the inputs are generated; `None` if elements are only moved and may
    /// have any bits.
    pub redop: Option<RedOp>,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// The seed. It changes all values: cases with different seeds have different data.
    pub seed: u64,
}

/// The content of a stretch of elements. `k` is the index of an element in the stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Inputs of ranks: element `k` is input element `first + k % chunk` of rank
    /// `rank + k / chunk`.
    Input {
        /// The rank of the first chunk.
        rank: u64,
        /// Elements of one rank before those of the next rank; at least 1.
        chunk: u64,
        /// Index of each chunk's first element in its rank's input.
        first: u64,
    },
    /// The reduction over all ranks of their input elements `first + k`.
    Reduced {
        /// Index of the first element.
        first: u64,
    },
    /// Bytes that are no rank's input: what a collective must leave untouched.
    Sentinel,
}

impl Content {
    /// Returns input elements `first..first + len` of `rank`, followed by the same elements of the
    /// next ranks.
    pub fn input(rank: u64, first: u64, len: u64) -> Content {
        Content::Input {
            rank,
            chunk: len.max(1),
            first,
        }
    }
}

/// Returns the number of ranks up to which the values are exact. Within [`MAX_RANKS`] only an avg
/// of f8e4m3 has a limit: NCCL multiplies by 1/n, which the type cannot represent below 1/64.
pub fn most_ranks(dtype: DType, redop: Option<RedOp>) -> u64 {
    if (dtype, redop) == (DType::F8e4m3, Some(RedOp::Avg)) {
        64
    } else {
        u64::MAX
    }
}

/// Returns the factor by which a mulsum multiplies the input of `rank`, as an element of `dtype` in
/// little-endian order followed by zeros: 1 for even ranks and 2 for odd ones, as in nccl-tests.
pub fn scalar(dtype: DType, rank: u64) -> [u8; 8] {
    let integer = 1 + rank % 2;
    let float = integer as f64;
    let bits = match ElementEncoding::new(dtype, Some(RedOp::MulSum)) {
        ElementEncoding::Bits8
        | ElementEncoding::Bits16
        | ElementEncoding::Bits32
        | ElementEncoding::Bits64 => integer,
        ElementEncoding::Half => narrow::<16, 10>(float),
        ElementEncoding::Bfloat16 => narrow::<16, 7>(float),
        ElementEncoding::Float => narrow::<32, 23>(float),
        ElementEncoding::Double => narrow::<64, 52>(float),
        ElementEncoding::F8e4m3 => narrow::<8, 3>(float),
        ElementEncoding::F8e5m2 => narrow::<8, 2>(float),
    };
    bits.to_le_bytes()
}

/// A stretch of a buffer and what it holds. Offsets and lengths count elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First element, from the start of the buffer.
    pub offset: u64,
    /// Number of elements.
    pub len: u64,
    /// What they hold.
    pub content: Content,
}

/// The number of ranks up to which the tests prove all of this. The first limits beyond it: above
/// 16,384 ranks an avg of half becomes subnormal, which the generator does not model; above 65,536
/// a rank affects fewer than 1 in 128 elements of a bfloat16 sum, fewer than 1 in 2,048 of an f8
/// sum, and fewer than 1 in 8,192 of a sum of 8-bit integers (which stays exact). Everything else
/// is exact up to 2^19 ranks.
pub const MAX_RANKS: u64 = 4096;
