//! What the elements of a stretch depend on, decided once: the kernels on the GPU get it too.

use super::{
    bits::{lanes, narrow, widen},
    content::{Content, DataKey, most_ranks},
    types::{DType, RedOp},
};

/// How the elements of a type are made: integers and raw bits by their width, floats by their format.
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
    /// How the elements of `dtype` are made for `redop`. Where nothing is computed a float is as good as any bits.
    pub fn of(dtype: DType, redop: Option<RedOp>) -> ElementEncoding {
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

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            ElementEncoding::Bits8 | ElementEncoding::F8e4m3 | ElementEncoding::F8e5m2 => 1,
            ElementEncoding::Bits16 | ElementEncoding::Half | ElementEncoding::Bfloat16 => 2,
            ElementEncoding::Bits32 | ElementEncoding::Float => 4,
            ElementEncoding::Bits64 | ElementEncoding::Double => 8,
        }
    }

    /// Bits of a float's significand, the hidden one counted; `None` for integers.
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

    /// Slots that bring a power of two to a product: twice the exponent that surely does not overflow or underflow.
    fn product_window(self) -> u32 {
        match self {
            ElementEncoding::F8e4m3 => 2 * 6,
            ElementEncoding::Half | ElementEncoding::F8e5m2 => 2 * 12,
            ElementEncoding::Double => 2 * 1000,
            _ => 2 * 100,
        }
    }
}

/// Which function makes the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// All bits set.
    Sentinel,
    /// A mark less its successor's. With one slot it is the mark alone, which also serves elements that only move.
    Sum,
    /// As `Sum`, with marks that fall from slot to slot: nothing overflows.
    Stairs,
    /// A mark over its successor's.
    Product,
    /// The winner in slot 0, below it in all others.
    Extreme,
    /// Input of an avg of floats where 1/n is not exact: two slots that are not zero.
    Pair,
    /// Result of an avg of integers, or of [`Form::Pair`].
    Mean,
    /// As `Sum`, for a library that multiplies by [`scalar`](super::scalar) before it adds.
    Scaled,
}

/// All that the value of an element depends on beside its place, worked out once for a stretch.
///
/// The kernels take this very struct as a parameter, hence the layout; what is decided here is decided for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Recipe {
    /// Index of each chunk's first element in its rank's input.
    pub first: u64,
    /// Elements before the next rank's begin.
    pub chunk: u64,
    /// Bits of the f64 by which a floating result is multiplied: 1/ranks as the type has it in an avg, else 1.
    pub factor: u64,
    /// What is exclusive-ored onto the winner's order so that it fits signed types, and min.
    pub flip: u64,
    /// The bits that the mark of slot 0, the result of a sum of integers, may have.
    pub head: u64,
    /// The rank whose input the first chunk is.
    pub rank: u32,
    /// Slots; 1 where a rank is alone or ranks do not matter to each other.
    pub ring: u32,
    /// Slots that ranks move on from a unit to the next.
    pub stride: u32,
    /// Slots between the lanes of a unit where each lane has a rotation of its own.
    pub spread: u32,
    /// Slots from 0 that have a mark in sums of floats and of 8-bit integers, and an exponent in floating products.
    pub window: u32,
    /// Bits of a mark in floating sums.
    pub depth: u32,
    /// What an avg of integers divides by.
    pub ranks: u32,
    /// Units in the last place by which a result may be off.
    pub slack: u32,
    /// How elements are stored.
    pub kind: ElementEncoding,
    /// How they are made.
    pub form: Form,
    /// The seed, mixed.
    pub key: [u32; 2],
}

/// Slots that have a mark in sums of 8-bit integers, and how far apart the least marks of two slots are. The greatest
/// mark is below their product.
pub(super) const STAIRS: u64 = 8;
pub(super) const STEP: u64 = 16;
const _: () = assert!(
    STAIRS * STEP - 1 <= i8::MAX as u64,
    "each sum fits int8 and uint8"
);

impl Recipe {
    /// The recipe for `content`.
    pub fn new(key: &DataKey, content: &Content) -> Recipe {
        let DataKey {
            dtype,
            redop,
            ranks,
            seed,
        } = *key;
        let kind = ElementEncoding::of(dtype, redop);
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
            // Of stairs even a lone rank's mark depends on how many there are.
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

/// 1/n for the result of an avg of floats, rounded as NCCL rounds it: to double, then to the type, by way of float.
fn factor(kind: ElementEncoding, key: &DataKey, content: &Content) -> f64 {
    if key.redop != Some(RedOp::Avg) || !matches!(content, Content::Reduced { .. }) {
        return 1.0;
    }
    // Above that many ranks nothing is run, but what is made is still to be numbers.
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

/// The sign bits of a unit's elements; of floats also, whose patterns turn about zero.
fn signs(dtype: DType) -> u64 {
    match dtype {
        DType::Uint8 | DType::Uint32 | DType::Uint64 => 0,
        DType::Int8 | DType::F8e4m3 | DType::F8e5m2 => 0x8080_8080_8080_8080,
        DType::Half | DType::Bfloat16 => 0x8000_8000_8000_8000,
        DType::Int32 | DType::Float => 0x8000_0000_8000_0000,
        DType::Int64 | DType::Double => 0x8000_0000_0000_0000,
    }
}

/// A float of opposite sign, or an integer with each bit inverted, is in the opposite place of the order.
fn flip(dtype: DType, redop: Option<RedOp>) -> u64 {
    match (redop, dtype.is_float()) {
        (Some(RedOp::Min), false) => !signs(dtype),
        (Some(RedOp::Min), true) | (_, false) => signs(dtype),
        (_, true) => 0,
    }
}

fn head(dtype: DType, redop: Option<RedOp>) -> u64 {
    if redop == Some(RedOp::Avg) {
        !signs(dtype)
    } else {
        u64::MAX
    }
}

fn window(kind: ElementEncoding, redop: Option<RedOp>, ranks: u64) -> u32 {
    let most = match (redop, kind.significand()) {
        (Some(RedOp::Prod), Some(_)) => kind.product_window().into(),
        (_, Some(bits)) => 1 << (bits + 1),
        (Some(RedOp::Sum), None) if kind == ElementEncoding::Bits8 => STAIRS,
        (_, None) => ranks,
    };
    ranks.min(most) as u32
}

/// A step that comes by every slot before it comes back, and near the golden section, so that it comes by each stretch
/// of slots early.
fn stride(ring: u32) -> u32 {
    let gcd = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (u64::from(ring) * 618 / 1000) as u32;
    (golden.max(1)..)
        .find(|step| gcd(*step, ring) == 1)
        .unwrap_or(1)
}

/// The greatest number of bits such that marks of it keep to the bound in the module's text.
fn depth(significand: u32, window: u32) -> u32 {
    ((1u64 << significand) / u64::from(window.div_ceil(2)) + 1).ilog2()
}

/// Two words that no simple relation between seeds carries over to: multiplied and shifted until each bit depends on
/// each.
fn mixed(seed: u64) -> [u32; 2] {
    let mut x = seed.wrapping_add(0x5ea5_1de5_eed5_0001);
    for odd in [0xa24b_aed4_963e_e407, 0x9fb2_1c65_1e98_df25u64] {
        x = (x ^ x >> 32).wrapping_mul(odd);
    }
    x ^= x >> 29;
    [x as u32, (x >> 32) as u32]
}
