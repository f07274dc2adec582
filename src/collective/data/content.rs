//! What a stretch of a buffer holds, and on how many ranks that can be said.

use super::{
    bits::narrow,
    recipe::ElementEncoding,
    types::{DType, RedOp},
};

/// What the data of a case depend on, the same for every buffer and rank of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataKey {
    /// Element type.
    pub dtype: DType,
    /// The reduction the inputs are made for; `None` where elements are only moved, and any bits will do.
    pub redop: Option<RedOp>,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Changes all values; two cases with different seeds have different data.
    pub seed: u64,
}

/// What a stretch of elements holds. `k` is the element's place in the stretch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// What ranks put in: element `k` is input element `first + k % chunk` of rank `rank + k / chunk`.
    Input {
        /// The rank whose input the first chunk is.
        rank: u64,
        /// Elements of one rank's input before the next rank's begins; at least 1.
        chunk: u64,
        /// Index of each chunk's first element in its rank's input.
        first: u64,
    },
    /// The reduction over all ranks of their input elements `first + k`.
    Reduced {
        /// Index of the first element.
        first: u64,
    },
    /// Bytes that no rank puts in: what a collective must leave untouched.
    Sentinel,
}

/// On how many ranks the values are right; more do not occur where [`MAX_RANKS`] is kept to, but for an avg of f8e4m3:
/// NCCL multiplies by 1/n, and below 1/64 the type has not the bits for it.
pub fn most_ranks(dtype: DType, redop: Option<RedOp>) -> u64 {
    if (dtype, redop) == (DType::F8e4m3, Some(RedOp::Avg)) {
        64
    } else {
        u64::MAX
    }
}

/// By what a mulsum multiplies the input of `rank`, as an element of `dtype` in little endian order, with zeros behind: 1
/// for even ranks and 2 for odd ones, as in nccl-tests.
pub fn scalar(dtype: DType, rank: u64) -> [u8; 8] {
    let integer = 1 + rank % 2;
    let bits = match ElementEncoding::of(dtype, Some(RedOp::MulSum)) {
        ElementEncoding::Bits8
        | ElementEncoding::Bits16
        | ElementEncoding::Bits32
        | ElementEncoding::Bits64 => integer,
        ElementEncoding::Half => narrow::<16, 10>(integer as f64),
        ElementEncoding::Bfloat16 => narrow::<16, 7>(integer as f64),
        ElementEncoding::Float => narrow::<32, 23>(integer as f64),
        ElementEncoding::Double => narrow::<64, 52>(integer as f64),
        ElementEncoding::F8e4m3 => narrow::<8, 3>(integer as f64),
        ElementEncoding::F8e5m2 => narrow::<8, 2>(integer as f64),
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

/// The bound up to which the tests prove all of this. What gives way first beyond it: above 16,384 ranks an avg of half
/// becomes subnormal, which the generator does not model; above 65,536 a rank is seen by fewer than 1 in 128 elements
/// of a bfloat16 sum, by fewer than 1 in 2,048 of an f8 one, and by fewer than 1 in 8,192 of one of 8-bit integers (which
/// stay exact). All else is right up to 2^19
/// ranks.
pub const MAX_RANKS: u64 = 4096;
