//! [`Recipe`]: what the elements of a stretch depend on, computed once for both the host and the
//! kernels on the GPU.

use super::{
    bits::{lanes, narrow, widen},
    content::{Content, DataKey, most_ranks},
    encoding::ElementEncoding,
    types::{DType, RedOp},
};

/// The function that generates the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// All bits set.
    Sentinel,
    /// A mark minus its successor's. With one slot it is the mark alone, which also serves elements
    /// that are only moved.
    Sum,
    /// As `Sum`, with marks that decrease from slot to slot, so nothing overflows.
    Stairs,
    /// A mark divided by its successor's.
    Product,
    /// The winner in slot 0, lower values in all others.
    Extreme,
    /// Input of an avg of floats if 1/n is not exact: only two slots are not zero.
    Pair,
    /// Result of an avg of integers, or of [`Form::Pair`].
    Mean,
    /// As `Sum`, for a library that multiplies by [`scalar`](super::scalar) before it adds.
    Scaled,
}

/// Everything that the value of an element depends on besides its index, computed once for a
/// stretch.
///
/// The kernels take this struct as a parameter, hence the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Recipe {
    /// Index of each chunk's first element in its rank's input.
    pub first: u64,
    /// Elements before those of the next rank.
    pub chunk: u64,
    /// Bits of the f64 by which a floating-point result is multiplied: 1/ranks rounded to the type
    /// in an avg, else 1.
    pub factor: u64,
    /// XORed onto an element of a max or min, to adapt its order to signed types and to min.
    pub flip: u64,
    /// Mask of the mark of slot 0, the result of a sum of integers.
    pub head: u64,
    /// The rank of the first chunk.
    pub rank: u32,
    /// Number of slots; 1 if a rank is alone or its values do not depend on those of others.
    pub ring: u32,
    /// Slots by which ranks advance from one unit to the next.
    pub stride: u32,
    /// Slots between the lanes of a unit, if each lane has its own rotation.
    pub spread: u32,
    /// Slots from 0 that have a mark in sums of floats and of 8-bit integers, and an exponent in
    /// floating-point products.
    pub window: u32,
    /// Bits of a mark in floating-point sums.
    pub depth: u32,
    /// Divisor of an avg of integers.
    pub ranks: u32,
    /// Units in the last place by which a result may be off.
    pub slack: u32,
    /// The encoding of elements.
    pub kind: ElementEncoding,
    /// The function that generates them.
    pub form: Form,
    /// The mixed seed.
    pub key: [u32; 2],
}

/// Slots that have a mark in sums of 8-bit integers.
pub(super) const STAIRS: u64 = 8;
/// Distance between the smallest marks of two adjacent slots in such sums. The greatest mark is
/// below `STAIRS * STEP`.
pub(super) const STEP: u64 = 16;
const _: () = assert!(
    STAIRS * STEP - 1 <= i8::MAX as u64,
    "each sum fits int8 and uint8"
);

impl Recipe {
    /// Returns the recipe for `content`.
    pub fn new(key: &DataKey, content: &Content) -> Recipe {
        let DataKey {
            dtype,
            redop,
            ranks,
            seed,
        } = *key;
        let kind = ElementEncoding::new(dtype, redop);
        let (rank, chunk, first, alone) = match *content {
            Content::Input { rank, chunk, first } => (rank, chunk.max(1), first, redop.is_none()),
            Content::Reduced { first } => (0, u64::MAX, first, true),
            Content::Sentinel => (0, u64::MAX, 0, true),
        };
        let form = form(kind, key, content);
        let window = window(kind, redop, ranks);
        let ring = if alone { 1 } else { ranks as u32 };
        let inexact = form == Form::Mean && kind.significand().is_some();
        Recipe {
            first,
            chunk,
            factor: factor(kind, key, content).to_bits(),
            flip: flip(dtype, redop),
            head: head(dtype, redop),
            rank: rank as u32,
            ring,
            stride: stride(ring),
            spread: ring.div_ceil(lanes(8 * kind.bytes() as u32) as u32),
            // With stairs, even a lone rank's mark depends on the number of slots that have one.
            window: if alone && form != Form::Stairs {
                1
            } else {
                window
            },
            depth: kind.significand().map_or(0, |bits| depth(bits, window)),
            ranks: ranks as u32,
            slack: if inexact { 2 } else { 0 },
            kind,
            form,
            key: mixed(seed),
        }
    }
}

/// Returns the function that generates `content`.
fn form(kind: ElementEncoding, key: &DataKey, content: &Content) -> Form {
    let reduced = matches!(content, Content::Reduced { .. });
    let exact = kind.significand().is_some() && key.ranks.is_power_of_two();
    match (content, key.redop) {
        (Content::Sentinel, _) => Form::Sentinel,
        (_, Some(RedOp::Sum)) if kind == ElementEncoding::Bits8 => Form::Stairs,
        (_, None | Some(RedOp::Sum)) => Form::Sum,
        (_, Some(RedOp::Prod)) => Form::Product,
        (_, Some(RedOp::Max | RedOp::Min)) => Form::Extreme,
        (_, Some(RedOp::MulSum)) => Form::Scaled,
        (_, Some(RedOp::Avg)) if exact => Form::Sum,
        (_, Some(RedOp::Avg)) if reduced => Form::Mean,
        (_, Some(RedOp::Avg)) if kind.significand().is_some() => Form::Pair,
        (_, Some(RedOp::Avg)) => Form::Sum,
    }
}

/// Returns 1/n for the result of an avg of floats, rounded as by NCCL: to double, to float, then to
/// the type.
fn factor(kind: ElementEncoding, key: &DataKey, content: &Content) -> f64 {
    if key.redop != Some(RedOp::Avg) || !matches!(content, Content::Reduced { .. }) {
        return 1.0;
    }
    // Nothing runs on more ranks, but the values must still be finite numbers.
    let exact = 1.0 / key.ranks.min(most_ranks(key.dtype, key.redop)) as f64;
    let float = f64::from(exact as f32);
    match kind {
        ElementEncoding::Half => widen::<16, 10>(narrow::<16, 10>(float)),
        ElementEncoding::Bfloat16 => widen::<16, 7>(narrow::<16, 7>(float)),
        ElementEncoding::F8e4m3 => widen::<8, 3>(narrow::<8, 3>(float)),
        ElementEncoding::F8e5m2 => widen::<8, 2>(narrow::<8, 2>(float)),
        ElementEncoding::Float => float,
        _ => exact,
    }
}

/// Returns the sign bits of a unit's elements, for floats as well: the order of their bit patterns
/// reverses below zero.
fn signs(dtype: DType) -> u64 {
    match dtype {
        DType::Uint8 | DType::Uint32 | DType::Uint64 => 0,
        DType::Int8 | DType::F8e4m3 | DType::F8e5m2 => 0x8080_8080_8080_8080,
        DType::Half | DType::Bfloat16 => 0x8000_8000_8000_8000,
        DType::Int32 | DType::Float => 0x8000_0000_8000_0000,
        DType::Int64 | DType::Double => 0x8000_0000_0000_0000,
    }
}

/// Returns [`Recipe::flip`]. A float of opposite sign, or an integer with each bit inverted, has
/// the opposite place in the order.
fn flip(dtype: DType, redop: Option<RedOp>) -> u64 {
    match (redop, dtype.is_float()) {
        (Some(RedOp::Min), false) => !signs(dtype),
        (Some(RedOp::Min), true) | (_, false) => signs(dtype),
        (_, true) => 0,
    }
}

/// Returns [`Recipe::head`].
fn head(dtype: DType, redop: Option<RedOp>) -> u64 {
    if redop == Some(RedOp::Avg) {
        !signs(dtype)
    } else {
        u64::MAX
    }
}

/// Returns [`Recipe::window`] for a reduction over `ranks` ranks.
fn window(kind: ElementEncoding, redop: Option<RedOp>, ranks: u64) -> u32 {
    let most = match (redop, kind.significand()) {
        (Some(RedOp::Prod), Some(_)) => kind.product_window().into(),
        (_, Some(bits)) => 1 << (bits + 1),
        (Some(RedOp::Sum), None) if kind == ElementEncoding::Bits8 => STAIRS,
        (_, None) => ranks,
    };
    ranks.min(most) as u32
}

/// Returns a step that visits every slot before it returns to the first, and is near the golden
/// section so that it visits each stretch of slots early.
fn stride(ring: u32) -> u32 {
    let golden = (u64::from(ring) * 618 / 1000) as u32;
    (golden.max(1)..)
        .find(|step| greatest_common_divisor(*step, ring) == 1)
        .unwrap_or(1)
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the greatest number of bits of a mark within the bound derived in the module
/// documentation.
fn depth(significand: u32, window: u32) -> u32 {
    ((1u64 << significand) / u64::from(window.div_ceil(2)) + 1).ilog2()
}

/// Returns two words in which each bit depends on every bit of the seed, so related seeds give
/// unrelated words.
fn mixed(seed: u64) -> [u32; 2] {
    let mut x = seed.wrapping_add(0x5ea5_1de5_eed5_0001);
    for odd in [0xa24b_aed4_963e_e407, 0x9fb2_1c65_1e98_df25u64] {
        x = (x ^ x >> 32).wrapping_mul(odd);
    }
    x ^= x >> 29;
    [x as u32, (x >> 32) as u32]
}
