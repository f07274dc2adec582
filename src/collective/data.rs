//! What buffers hold: element types, reduction operations, and the value of every element before and after a
//! collective.
//!
//! The same values are made on the GPU by `backend/nccl/kernels.cu`; the two must agree byte for byte.
//!
//! # How a result is known without reducing anything
//!
//! Inputs telescope. At each index every slot (a rank, or a rank's place after a rotation) has a pseudo-random *mark*,
//! the slot after the last has the identity of the operation, and a slot's input is its own mark with its successor's
//! mark undone: `mark(s) - mark(s + 1)` for a sum, `mark(s) / mark(s + 1)` for a product. Whatever the number of ranks,
//! the reduction of all inputs is `mark(0)`, and it is exactly what a lone rank would put in; so [`Content::Reduced`]
//! is the input of a communicator of one, made by the same code at the same cost. Yet a lost, doubled, stale or
//! exchanged contribution of *any* rank changes the result, at nearly every element where the type has room for it.
//!
//! For mulsum a rank's input is not what it adds: the library multiplies it by [`scalar`] before.
//!
//! # Why it is exact in every order
//!
//! NCCL may add in any order, so every partial result of every subset of ranks must be exact in the type.
//!
//! - Integers, sum and prod: arithmetic modulo 2^w is a ring. Marks of a product are odd, so each has an inverse.
//! - Integers of 8 bits, sum: neither MPI nor NCCL says what a sum does that does not fit, and there are MPI libraries
//!   that add 8-bit integers with saturation. So marks fall by 1 to 31 from slot to slot, from at most 127, in a window
//!   of 8 slots, and are 0 in all others: inputs are not negative, and each subset's sum fits both types. A sum has 4
//!   random bits. An avg keeps the ring: only NCCL has it, and NCCL's sum wraps.
//! - Floats, sum: inputs are integers times one power of two an index. With marks in `0..=M` in a *window* of A slots
//!   and 0 outside, the positive inputs of an index add up to at most `M * ceil(A / 2)`: each is a fall of the sequence
//!   of marks, which starts at most at M and must rise again before it can fall again. The negative ones add up to
//!   mark(0) less. `M * ceil(A / 2) <= 2^p` for a significand of p bits, so each subset's sum is an integer of
//!   magnitude at most 2^p, which the type has. Sums that are zero are +0 in each order: inputs are never -0, and
//!   rounding to nearest gives `x - x = +0`. The window is all ranks but for bfloat16 (512) and floats of 8 bits (32 and
//!   16); ranks rotate through it from unit to unit, so that every rank is in it equally often; so they do in sums of
//!   8-bit integers. That NCCL adds and multiplies floats of 8 bits as half, and rounds then, makes no difference: half
//!   has all of these numbers.
//! - Floats, prod: each rank brings a sign, slots in a window bring 2^-1, 1 or 2, and slot 0 alone has a significand.
//!   A partial product is therefore a significand times a power of two, which is exact while it is a normal number; the
//!   bound above, with M = 1, keeps the exponent within `ceil(A / 2)`: 6 for f8e4m3, 12 for half and f8e5m2, 100, and 1000
//!   for double.
//! - mulsum: what even ranks bring is multiplied by 1, what odd ranks bring by 2, and then it is a sum. Floats: an odd rank
//!   brings half of what it would bring to a sum, so that the product is that again; halving and doubling change only the
//!   exponent, which is far from its ends. Integers: 2 has no inverse in the ring, but an even number has a half. All
//!   marks but that of slot 0 are even, so that every input is, but that of rank 0, whose scalar is 1: an odd rank brings
//!   half of its own. As only NCCL has a mulsum, 8 bits keep the ring as in an avg.
//! - max and min round nothing. Slot 0 has the winner, all others draw below it; no NaN, infinity, zero or subnormal
//!   number, for which implementations differ (`-0 < +0`?).
//! - avg of integers: NCCL adds modulo 2^w and divides by the number of ranks. The sum has no sign bit, so that it
//!   makes no difference how a library rounds negative quotients.
//! - avg of floats: NCCL multiplies each input by 1/n rounded in the type, and adds. If n is a power of two that is
//!   exact and inputs are those of a sum. Else just two ranks an index are not zero, both of one sign; the result is
//!   computed in that very chain, and since a compiler may fuse the multiplication with the addition, 2 ulp are
//!   allowed: each of the three roundings is off by half of one at most, of the result or of what is smaller, and a chain
//!   with fewer of them is off by less. Nothing else has a tolerance. It takes 1/n and the products to be normal numbers,
//!   which f8e4m3 has down to 1/64: [`most_ranks`].

use std::iter;

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

    /// nccl-tests' name.
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

    /// Is it a float of 8 bits, which not every library and GPU knows?
    pub fn is_float8(self) -> bool {
        matches!(self, DType::F8e4m3 | DType::F8e5m2)
    }

    /// Is it a float?
    pub fn is_float(self) -> bool {
        self.is_float8() || matches!(self, DType::Half | DType::Bfloat16 | DType::Float | DType::Double)
    }

    /// Bytes an element takes.
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
    /// All operations, in the order of nccl-tests' `-o all`.
    pub const ALL: [RedOp; 6] = [RedOp::Sum, RedOp::Prod, RedOp::Max, RedOp::Min, RedOp::Avg, RedOp::MulSum];

    /// nccl-tests' name.
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
    if (dtype, redop) == (DType::F8e4m3, Some(RedOp::Avg)) { 64 } else { u64::MAX }
}

/// By what a mulsum multiplies the input of `rank`, as an element of `dtype` in little endian order, with zeros behind: 1
/// for even ranks and 2 for odd ones, as in nccl-tests.
pub fn scalar(dtype: DType, rank: u64) -> [u8; 8] {
    let integer = 1 + rank % 2;
    let bits = match Kind::of(dtype, Some(RedOp::MulSum)) {
        Kind::Bits8 | Kind::Bits16 | Kind::Bits32 | Kind::Bits64 => integer,
        Kind::Half => narrow::<16, 10>(integer as f64),
        Kind::Bfloat16 => narrow::<16, 7>(integer as f64),
        Kind::Float => narrow::<32, 23>(integer as f64),
        Kind::Double => narrow::<64, 52>(integer as f64),
        Kind::F8e4m3 => narrow::<8, 3>(integer as f64),
        Kind::F8e5m2 => narrow::<8, 2>(integer as f64),
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

/// Fills `out`, a whole stretch of elements in little endian order, with `content`.
pub fn write(key: &DataKey, content: &Content, out: &mut [u8]) {
    let recipe = Recipe::new(key, content);
    let bytes = recipe.bytes_of(out.len());
    for (nth, piece) in out.chunks_mut(bytes).enumerate() {
        recipe.fill(recipe.rank + nth as u32, recipe.first, piece);
    }
}

/// How many elements of `got`, a whole stretch, are not what `content` demands.
pub fn count_wrong(key: &DataKey, content: &Content, got: &[u8]) -> u64 {
    let recipe = Recipe::new(key, content);
    let size = recipe.kind.bytes();
    let mut want = [0; 4096];
    let mut wrong = 0;
    for (nth, piece) in got.chunks(recipe.bytes_of(got.len())).enumerate() {
        for (at, part) in piece.chunks(want.len()).enumerate() {
            let want = &mut want[..part.len()];
            recipe.fill(recipe.rank + nth as u32, recipe.first + (at * 4096 / size) as u64, want);
            wrong += differing(part, want, size, recipe.slack.into());
        }
    }
    wrong
}

/// The bits to invert in the first byte of an element of `content` so that it surely is wrong: the lowest, but where some
/// units in the last place are allowed, one that is worth more.
pub fn fault_in(key: &DataKey, content: &Content) -> u8 {
    if Recipe::new(key, content).slack == 0 { 1 } else { 1 << 3 }
}

/// Elements of `size` bytes in which `got` is further than `slack` from `want`.
fn differing(got: &[u8], want: &[u8], size: usize, slack: u64) -> u64 {
    if got == want {
        return 0;
    }
    let wrong = |(got, want): &(&[u8], &[u8])| got != want && (slack == 0 || distance(got, want) > slack);
    got.chunks_exact(size).zip(want.chunks_exact(size)).filter(wrong).count() as u64
}

/// How many values of their floating type lie between two elements, in units in the last place; -0 and +0 are one.
fn distance(a: &[u8], b: &[u8]) -> u64 {
    let ordered = |element: &[u8]| {
        let mut bytes = [0; 8];
        bytes[8 - element.len()..].copy_from_slice(element);
        let bits = i64::from_le_bytes(bytes);
        let magnitude = (bits & i64::MAX) >> (64 - 8 * element.len());
        if bits < 0 { -magnitude } else { magnitude }
    };
    ordered(a).abs_diff(ordered(b))
}

/// How the elements of a type are made: integers and raw bits by their width, floats by their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
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

impl Kind {
    /// How the elements of `dtype` are made for `redop`. Where nothing is computed a float is as good as any bits.
    pub fn of(dtype: DType, redop: Option<RedOp>) -> Kind {
        match (dtype, redop) {
            (DType::Int8 | DType::Uint8, _) | (DType::F8e4m3 | DType::F8e5m2, None) => Kind::Bits8,
            (DType::Half | DType::Bfloat16, None) => Kind::Bits16,
            (DType::Int32 | DType::Uint32, _) | (DType::Float, None) => Kind::Bits32,
            (DType::Int64 | DType::Uint64, _) | (DType::Double, None) => Kind::Bits64,
            (DType::Half, Some(_)) => Kind::Half,
            (DType::Bfloat16, Some(_)) => Kind::Bfloat16,
            (DType::Float, Some(_)) => Kind::Float,
            (DType::Double, Some(_)) => Kind::Double,
            (DType::F8e4m3, Some(_)) => Kind::F8e4m3,
            (DType::F8e5m2, Some(_)) => Kind::F8e5m2,
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Kind::Bits8 | Kind::F8e4m3 | Kind::F8e5m2 => 1,
            Kind::Bits16 | Kind::Half | Kind::Bfloat16 => 2,
            Kind::Bits32 | Kind::Float => 4,
            Kind::Bits64 | Kind::Double => 8,
        }
    }

    /// Bits of a float's significand, the hidden one counted; `None` for integers.
    fn significand(self) -> Option<u32> {
        match self {
            Kind::Bits8 | Kind::Bits16 | Kind::Bits32 | Kind::Bits64 => None,
            Kind::Half => Some(11),
            Kind::Bfloat16 => Some(8),
            Kind::Float => Some(24),
            Kind::Double => Some(53),
            Kind::F8e4m3 => Some(4),
            Kind::F8e5m2 => Some(3),
        }
    }

    /// Slots that bring a power of two to a product: twice the exponent that surely does not overflow or underflow.
    fn product_window(self) -> u32 {
        match self {
            Kind::F8e4m3 => 2 * 6,
            Kind::Half | Kind::F8e5m2 => 2 * 12,
            Kind::Double => 2 * 1000,
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
    /// As `Sum`, for a library that multiplies by [`scalar`] before it adds.
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
    pub kind: Kind,
    /// How they are made.
    pub form: Form,
    /// The seed, mixed.
    pub key: [u32; 2],
}

/// Slots that no rank has: their streams are the same on all ranks.
const INDEX_SLOT: u32 = u32::MAX;
const PHASE_SLOT: u32 = u32::MAX - 1;

/// Units between two random turns of the rotation.
const TURN: u64 = 4096;

/// Slots that have a mark in sums of 8-bit integers, and how far apart the least marks of two slots are. The greatest
/// mark is below their product.
const STAIRS: u64 = 8;
const STEP: u64 = 16;
const _: () = assert!(STAIRS * STEP - 1 <= i8::MAX as u64, "each sum fits int8 and uint8");

impl Recipe {
    /// The recipe for `content`.
    pub fn new(key: &DataKey, content: &Content) -> Recipe {
        let DataKey { dtype, redop, ranks, seed } = *key;
        let kind = Kind::of(dtype, redop);
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
            window: if alone && form != Form::Stairs { 1 } else { window },
            depth: kind.significand().map_or(0, |bits| depth(bits, window)),
            ranks: ranks as u32,
            slack: if inexact { 2 } else { 0 },
            kind,
            form,
            key: mixed(seed),
        }
    }

    /// Bytes of a chunk; what `whole` has where one chunk is all, and never 0.
    fn bytes_of(&self, whole: usize) -> usize {
        usize::try_from(self.chunk.saturating_mul(self.kind.bytes() as u64)).unwrap_or(usize::MAX).min(whole.max(1))
    }

    /// Fills `out` with elements `from..` of `rank`.
    fn fill(&self, rank: u32, from: u64, out: &mut [u8]) {
        match self.kind {
            _ if self.form == Form::Sentinel => out.fill(0xff),
            Kind::Bits8 => self.fill_bits::<8>(rank, from, out),
            Kind::Bits16 => self.fill_bits::<16>(rank, from, out),
            Kind::Bits32 => self.fill_bits::<32>(rank, from, out),
            Kind::Bits64 => self.fill_bits::<64>(rank, from, out),
            Kind::Half => self.fill_floats::<16, 10>(rank, from, out),
            Kind::Bfloat16 => self.fill_floats::<16, 7>(rank, from, out),
            Kind::Float => self.fill_floats::<32, 23>(rank, from, out),
            Kind::Double => self.fill_floats::<64, 52>(rank, from, out),
            Kind::F8e4m3 => self.fill_floats::<8, 3>(rank, from, out),
            Kind::F8e5m2 => self.fill_floats::<8, 2>(rank, from, out),
        }
    }

    /// Integers, or just bits, of width W. One loop a form, so that nothing is asked again at each element.
    fn fill_bits<const W: u32>(&self, rank: u32, from: u64, out: &mut [u8]) {
        match self.form {
            Form::Product => each::<W>(from, out, |i| self.int_product::<W>(i, rank)),
            Form::Extreme => self.each_slot::<W>(rank, from, out, |i, slot| self.order::<W>(i, slot, None) ^ self.flip),
            Form::Stairs => self.each_slot::<W>(rank, from, out, |i, slot| self.stairs::<W>(i, slot)),
            Form::Scaled => each::<W>(from, out, |i| self.int_scaled::<W>(i, rank)),
            Form::Mean => each::<W>(from, out, |i| (self.bits::<W>(i, 0) & self.head) / u64::from(self.ranks)),
            _ => each::<W>(from, out, |i| self.int_sum::<W>(i, rank)),
        }
    }

    /// Floats of W bits, M of them after the point of the significand.
    fn fill_floats<const W: u32, const M: u32>(&self, rank: u32, from: u64, out: &mut [u8]) {
        let share = if self.form == Form::Scaled && rank % 2 == 1 { 0.5 } else { 1.0 };
        match self.form {
            Form::Product => self.each_slot::<W>(rank, from, out, |i, slot| self.float_product::<W, M>(i, slot)),
            Form::Extreme => self.each_slot::<W>(rank, from, out, |i, slot| self.float_extreme::<W, M>(i, slot)),
            Form::Pair => self.each_slot::<W>(rank, from, out, |i, slot| self.pair::<W, M>(i, slot)),
            Form::Mean => each::<W>(from, out, |i| self.mean::<W, M>(i)),
            _ => self.each_slot::<W>(rank, from, out, |i, slot| self.float_sum::<W, M>(i, slot, share)),
        }
    }

    /// Stores `value(i, slot)` for elements `from..`, where `slot` is that of `rank` in the unit of element `i`.
    ///
    /// Ranks move on by a stride from unit to unit, so that even in a short message each gets its turn in each slot and
    /// in each window; and they turn by a random angle every [`TURN`] units, so that no rank is bound for ever to one
    /// lane of a vector or to one place in the library's own chunks.
    fn each_slot<const W: u32>(&self, rank: u32, from: u64, out: &mut [u8], value: impl Fn(u64, u32) -> u64) {
        let turn = TURN * lanes(W);
        let head = ((turn - from % turn) as usize * W as usize / 8).min(out.len());
        let (first, rest) = out.split_at_mut(head);
        let whole = rest
            .chunks_mut(turn as usize * W as usize / 8)
            .zip(1..)
            .map(|(piece, n)| (piece, (from / turn + n) * turn));
        for (piece, from) in iter::once((first, from)).chain(whole) {
            let mut slot = self.slot(from / lanes(W), rank);
            each::<W>(from, piece, |i| {
                let own = slot;
                slot += if i % lanes(W) == lanes(W) - 1 { self.stride } else { 0 };
                slot -= if slot >= self.ring { self.ring } else { 0 };
                value(i, own)
            });
        }
    }

    /// The slot of `rank` in a unit.
    fn slot(&self, unit: u64, rank: u32) -> u32 {
        let phase = (u64::from(self.word(unit / TURN, PHASE_SLOT)) * u64::from(self.ring)) >> 32;
        (rank + phase as u32 + (unit % TURN) as u32 * self.stride) % self.ring
    }

    /// Word `at` of the random stream of `slot`. Multiplications and shifts of 32 bits, since GPUs have no others; the
    /// slot enters between the two rounds, so that a slot and its successor share the first.
    fn word(&self, at: u64, slot: u32) -> u32 {
        let mut x = at as u32 ^ self.key[0];
        x ^= x >> 16;
        x = x.wrapping_mul(0x3152_5adb).wrapping_add(self.key[1]);
        x = x.wrapping_add(((at >> 32) as u32).wrapping_mul(0x9af3_655b)).wrapping_add(slot.wrapping_mul(0x6322_ee4f));
        x ^= x >> 15;
        x = x.wrapping_mul(0x18ed_63b5);
        x ^ x >> 16
    }

    /// The W bits of `slot`'s stream that belong to element `i`: the stream is laid under the elements byte by byte, so
    /// narrow elements share a word, the *unit*.
    fn bits<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        if W == 64 {
            return u64::from(self.word(2 * i, slot)) | u64::from(self.word(2 * i + 1, slot)) << 32;
        }
        u64::from(self.word(i / lanes(W), slot) >> ((i % lanes(W)) as u32 * W)) & ones(W)
    }

    /// The random word that all ranks and the elements of the unit of `i` share.
    fn shared<const W: u32>(&self, i: u64) -> u32 {
        self.word(if W == 64 { 2 * i } else { i / lanes(W) }, INDEX_SLOT)
    }

    fn int_sum<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let own = self.bits::<W>(i, slot) & if slot == 0 { self.head } else { u64::MAX };
        let next = self.bits::<W>(i, slot + 1) & when(slot + 1 < self.ring);
        own.wrapping_sub(next)
    }

    /// Ranks do not rotate here: an odd slot is an odd rank's.
    fn int_scaled<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let (own, next) = (self.bits::<W>(i, slot), self.bits::<W>(i, slot + 1) & when(slot + 1 < self.ring));
        match slot {
            0 => own.wrapping_sub(next << 1),
            _ if slot % 2 == 1 => own.wrapping_sub(next),
            _ => own.wrapping_sub(next) << 1,
        }
    }

    fn stairs<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let mark = |slot: u32| {
            let least = u64::from(self.window - 1).wrapping_sub(slot.into()).wrapping_mul(STEP);
            least.wrapping_add(self.bits::<W>(i, slot) % STEP) & when(slot < self.window)
        };
        mark(slot) - (mark(slot + 1) & when(slot + 1 < self.ring))
    }

    fn int_product<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let own = self.bits::<W>(i, slot) | 1;
        let next = if slot + 1 < self.ring { self.bits::<W>(i, slot + 1) | 1 } else { 1 };
        own.wrapping_mul(inverse(next))
    }

    /// `share` is the part of its contribution that a rank brings: the library multiplies what is missing.
    fn float_sum<const W: u32, const M: u32>(&self, i: u64, slot: u32, share: f64) -> u64 {
        let mark = |slot| (self.bits::<W>(i, slot) >> (W - self.depth)) & when(slot < self.window);
        // The last bit of the result is always set: it takes the whole significand, and an empty buffer is wrong
        // everywhere.
        let own = mark(slot) | u64::from(slot == 0);
        let magnitude = own as i64 - mark(slot + 1) as i64;
        let shared = self.shared::<W>(i);
        let sign = i64::from(shared as i32 >> 31);
        let signed = (magnitude ^ sign) - sign;
        narrow::<W, M>(signed as f64 * f64::from(1u32 << (shared & 3)) * f64::from_bits(self.factor) * share)
    }

    fn float_product<const W: u32, const M: u32>(&self, i: u64, slot: u32) -> u64 {
        let own = self.bits::<W>(i, slot);
        let next = self.bits::<W>(i, slot + 1) & when(slot + 1 < self.ring);
        let exponent = |bits: u64, slot| bits & 1 & when(slot < self.window);
        let exponent = bias(W, M) + exponent(own, slot) - exponent(next, slot + 1);
        let fraction = self.bits::<W>(i, INDEX_SLOT) & ones(M) & when(slot == 0);
        (own ^ next) & 1 << (W - 1) | exponent << M | fraction
    }

    fn float_extreme<const W: u32, const M: u32>(&self, i: u64, slot: u32) -> u64 {
        let half = (ones(W - 1 - M) - 1) << M;
        let order = self.order::<W>(i, slot, Some(2 * half));
        let bits = if order < half { 1 << (W - 1) | (half - 1 - order) } else { order - half };
        (bits + (1 << M)) ^ self.flip
    }

    /// The place of an element among the `values` of its type (all 2^W if `None`), such that the greatest is in slot 0.
    ///
    /// Only the winner matters to the result, so the lanes of a unit have their winners on different ranks: a message
    /// of a few bytes then depends on as many ranks as it can.
    fn order<const W: u32>(&self, i: u64, slot: u32, values: Option<u64>) -> u64 {
        let below = |bound: u64, bits| ((u128::from(bound) * u128::from(bits)) >> W) as u64;
        let any = self.bits::<W>(i, 0);
        let winner = values.map_or(any, |values| below(values, any));
        let lane = (i % lanes(W)) as u32;
        let slot = if lane == 0 { slot } else { (slot + lane * self.spread) % self.ring };
        let lower = below(winner, self.bits::<W>(i, slot));
        if slot == 0 { winner } else { lower }
    }

    fn pair<const W: u32, const M: u32>(&self, i: u64, slot: u32) -> u64 {
        if slot > 1 {
            return 0;
        }
        let shared = self.shared::<W>(i);
        let exponent = bias(W, M) + u64::from(shared & 3);
        u64::from(shared >> 31) << (W - 1) | exponent << M | self.bits::<W>(i, slot) & ones(M)
    }

    /// NCCL's chain: both inputs times 1/n, rounded, then their sum, rounded.
    fn mean<const W: u32, const M: u32>(&self, i: u64) -> u64 {
        let share = |slot| narrow::<W, M>(widen::<W, M>(self.pair::<W, M>(i, slot)) * f64::from_bits(self.factor));
        narrow::<W, M>(widen::<W, M>(share(0)) + widen::<W, M>(share(1)))
    }
}

/// Stores `value(i)`, or its low W bits, for elements `from..`.
fn each<const W: u32>(from: u64, out: &mut [u8], mut value: impl FnMut(u64) -> u64) {
    let size = W as usize / 8;
    for (i, element) in (from..).zip(out.chunks_exact_mut(size)) {
        element.copy_from_slice(&value(i).to_le_bytes()[..size]);
    }
}

fn form(kind: Kind, key: &DataKey, content: &Content) -> Form {
    let reduced = matches!(content, Content::Reduced { .. });
    let exact = kind.significand().is_some() && key.ranks.is_power_of_two();
    match (content, key.redop) {
        (Content::Sentinel, _) => Form::Sentinel,
        (_, Some(RedOp::Sum)) if kind == Kind::Bits8 => Form::Stairs,
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
fn factor(kind: Kind, key: &DataKey, content: &Content) -> f64 {
    if key.redop != Some(RedOp::Avg) || !matches!(content, Content::Reduced { .. }) {
        return 1.0;
    }
    // Above that many ranks nothing is run, but what is made is still to be numbers.
    let exact = 1.0 / key.ranks.min(most_ranks(key.dtype, key.redop)) as f64;
    let float = f64::from(exact as f32);
    match kind {
        Kind::Half => widen::<16, 10>(narrow::<16, 10>(float)),
        Kind::Bfloat16 => widen::<16, 7>(narrow::<16, 7>(float)),
        Kind::F8e4m3 => widen::<8, 3>(narrow::<8, 3>(float)),
        Kind::F8e5m2 => widen::<8, 2>(narrow::<8, 2>(float)),
        Kind::Float => float,
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
    if redop == Some(RedOp::Avg) { !signs(dtype) } else { u64::MAX }
}

fn window(kind: Kind, redop: Option<RedOp>, ranks: u64) -> u32 {
    let most = match (redop, kind.significand()) {
        (Some(RedOp::Prod), Some(_)) => kind.product_window().into(),
        (_, Some(bits)) => 1 << (bits + 1),
        (Some(RedOp::Sum), None) if kind == Kind::Bits8 => STAIRS,
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
    (golden.max(1)..).find(|step| gcd(*step, ring) == 1).unwrap_or(1)
}

/// The greatest number of bits such that marks of it keep to the bound in the module's text.
fn depth(significand: u32, window: u32) -> u32 {
    ((1u64 << significand) / u64::from(window.div_ceil(2)) + 1).ilog2()
}

/// Elements of W bits that share a word of a stream, and with it their slot.
const fn lanes(w: u32) -> u64 {
    if w < 32 { 32 / w as u64 } else { 1 }
}

/// All bits or none. The conditions are as good as random, and a wrong guess costs more than what it saves.
fn when(condition: bool) -> u64 {
    u64::from(condition).wrapping_neg()
}

/// The low `bits` bits.
const fn ones(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The exponent field of numbers in 1..2 of a float with W bits, M of them after the point.
const fn bias(w: u32, m: u32) -> u64 {
    ones(w - 2 - m)
}

/// The inverse of an odd number modulo 2^64: an odd number is its own modulo 8, and each step doubles the bits.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// The bits of `x` as a float of W bits, rounded to nearest, ties to even. For zero and what the type has as normal.
fn narrow<const W: u32, const M: u32>(x: f64) -> u64 {
    if W == 64 {
        return x.to_bits();
    }
    let bits = x.to_bits() & ones(63);
    let drop = 52 - M;
    let rounded = (bits + ones(drop - 1) + (bits >> drop & 1)) >> drop;
    let rebased = rounded.wrapping_sub((bias(64, 52) - bias(W, M)) << M) & when(bits != 0);
    rebased | x.to_bits() >> 63 << (W - 1)
}

/// The number that `bits` are; zero or normal.
fn widen<const W: u32, const M: u32>(bits: u64) -> f64 {
    let magnitude = bits & ones(W - 1);
    let rebias = if magnitude == 0 { 0 } else { (bias(64, 52) - bias(W, M)) << M };
    f64::from_bits((magnitude + rebias) << (52 - M) | bits >> (W - 1) << 63)
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

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use half::{bf16, f16};
    use proptest::{prelude::*, sample::select};

    use super::*;

    const RANKS: [u64; 9] = [1, 2, 3, 5, 8, 9, 64, 1000, MAX_RANKS];

    /// Arithmetic as a library does it: in the type, rounding at each step. Written apart from the generator.
    trait Element: Copy + PartialOrd + Debug + 'static {
        fn read(bytes: &[u8]) -> Self;
        fn bits(self) -> u64;
        fn plus(self, other: Self) -> Self;
        fn times(self, other: Self) -> Self;
        /// What NCCL does to an input of an avg before it adds.
        fn before_avg(self, ranks: u64) -> Self;
        /// What it does to the sum.
        fn after_avg(self, ranks: u64) -> Self;

        fn combine(self, op: RedOp, other: Self) -> Self {
            match op {
                RedOp::Sum | RedOp::Avg | RedOp::MulSum => self.plus(other),
                RedOp::Prod => self.times(other),
                RedOp::Max if other > self => other,
                RedOp::Min if other < self => other,
                RedOp::Max | RedOp::Min => self,
            }
        }
    }

    macro_rules! integer {
        ($($t:ty)*) => {$(
            impl Element for $t {
                fn read(bytes: &[u8]) -> Self { <$t>::from_le_bytes(bytes.try_into().expect("an element")) }
                fn bits(self) -> u64 { self as u64 & ones(<$t>::BITS) }
                fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
                fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
                fn before_avg(self, _: u64) -> Self { self }
                fn after_avg(self, ranks: u64) -> Self { (self as i128 / ranks as i128) as $t }
            }
        )*};
    }
    integer!(i8 u8 i32 u32 i64 u64);

    macro_rules! float {
        ($($t:ty, $from:expr);*) => {$(
            impl Element for $t {
                fn read(bytes: &[u8]) -> Self { <$t>::from_le_bytes(bytes.try_into().expect("an element")) }
                fn bits(self) -> u64 { self.to_bits().into() }
                fn plus(self, other: Self) -> Self { self + other }
                fn times(self, other: Self) -> Self { self * other }
                fn before_avg(self, ranks: u64) -> Self { self * $from(1.0 / ranks as f64) }
                fn after_avg(self, _: u64) -> Self { self }
            }
        )*};
    }
    float!(f16, |x| f16::from_f32(x as f32); bf16, |x| bf16::from_f32(x as f32); f32, |x| x as f32; f64, |x: f64| x);

    /// A float of 8 bits, M of them after the point. It computes as NCCL does: as half, rounded then.
    #[derive(Clone, Copy)]
    struct F8<const M: u32>(u8);

    impl<const M: u32> F8<M> {
        /// The greatest positive number's bits: e4m3 has no infinity, and one NaN.
        const GREATEST: u8 = if M == 3 { 0x7e } else { 0x7b };

        fn value(self) -> f32 {
            let (exponent, fraction) = (i32::from(self.0 & 0x7f) >> M, f32::from(self.0 & ((1 << M) - 1)));
            let bias = (1 << (6 - M)) - 1;
            let scale = |exponent: i32| 2_f32.powi(exponent - bias - M as i32);
            let hidden = (1 << M) as f32;
            let magnitude = if exponent == 0 { fraction * scale(1) } else { (hidden + fraction) * scale(exponent) };
            if self.0 >> 7 == 1 { -magnitude } else { magnitude }
        }

        /// The nearest of all numbers there are; of two the one that is even.
        fn nearest(x: f32) -> Self {
            let value = |bits: u8| F8::<M>(bits).value();
            // The first that is not below, by halving.
            let (mut low, mut above) = (0, Self::GREATEST);
            while low < above {
                let middle = low.midpoint(above);
                (low, above) = if value(middle) < x.abs() { (middle + 1, above) } else { (low, middle) };
            }
            let below = above.saturating_sub(1);
            let (up, down) = (value(above) - x.abs(), x.abs() - value(below));
            let bits = if down < up || down == up && below % 2 == 0 { below } else { above };
            F8(bits | if x.is_sign_negative() { 0x80 } else { 0 })
        }

        fn half(self) -> f16 {
            f16::from_f32(self.value())
        }
    }

    impl<const M: u32> PartialEq for F8<M> {
        fn eq(&self, other: &Self) -> bool {
            self.value() == other.value()
        }
    }

    impl<const M: u32> PartialOrd for F8<M> {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            self.value().partial_cmp(&other.value())
        }
    }

    impl<const M: u32> Debug for F8<M> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} ({:#04x})", self.value(), self.0)
        }
    }

    impl<const M: u32> Element for F8<M> {
        fn read(bytes: &[u8]) -> Self {
            F8(bytes[0])
        }

        fn bits(self) -> u64 {
            self.0.into()
        }

        fn plus(self, other: Self) -> Self {
            Self::nearest((self.half() + other.half()).to_f32())
        }

        fn times(self, other: Self) -> Self {
            Self::nearest((self.half() * other.half()).to_f32())
        }

        fn before_avg(self, ranks: u64) -> Self {
            self.times(Self::nearest((1.0 / ranks as f64) as f32))
        }

        fn after_avg(self, _: u64) -> Self {
            self
        }
    }

    #[test]
    fn floats_of_8_bits_are_what_the_standard_says() {
        assert_eq!(
            [0x38, 0x7e, 0x08, 0x01, 0xc0].map(|bits| F8::<3>(bits).value()),
            [1.0, 448.0, 2f32.powi(-6), 2f32.powi(-9), -2.0]
        );
        assert_eq!(
            [0x3c, 0x7b, 0x04, 0x01, 0xc0].map(|bits| F8::<2>(bits).value()),
            [1.0, 57344.0, 2f32.powi(-14), 2f32.powi(-16), -2.0]
        );
        assert_eq!((F8::<3>::nearest(17.0).value(), F8::<3>::nearest(19.0).value()), (16.0, 20.0));
        for bits in (0x08..0x78).chain(0x88..0xf8) {
            let value = f64::from(F8::<3>(bits).value());
            assert_eq!((narrow::<8, 3>(value), widen::<8, 3>(bits.into())), (bits.into(), value));
            let value = f64::from(F8::<2>(bits).value());
            assert_eq!((narrow::<8, 2>(value), widen::<8, 2>(bits.into())), (bits.into(), value));
        }
    }

    /// Runs a generic test with the Rust type of a [`DType`].
    macro_rules! with_type {
        ($dtype:expr, $test:ident($($arg:expr),*)) => {
            match $dtype {
                DType::Int8 => $test::<i8>($($arg),*),
                DType::Uint8 => $test::<u8>($($arg),*),
                DType::Int32 => $test::<i32>($($arg),*),
                DType::Uint32 => $test::<u32>($($arg),*),
                DType::Int64 => $test::<i64>($($arg),*),
                DType::Uint64 => $test::<u64>($($arg),*),
                DType::Half => $test::<f16>($($arg),*),
                DType::Float => $test::<f32>($($arg),*),
                DType::Double => $test::<f64>($($arg),*),
                DType::Bfloat16 => $test::<bf16>($($arg),*),
                DType::F8e4m3 => $test::<F8<3>>($($arg),*),
                DType::F8e5m2 => $test::<F8<2>>($($arg),*),
            }
        };
    }

    fn made(key: &DataKey, content: Content, len: u64) -> Vec<u8> {
        let mut out = vec![0; (len * key.dtype.size()) as usize];
        write(key, &content, &mut out);
        out
    }

    fn elements<T: Element>(key: &DataKey, content: Content, len: u64) -> Vec<T> {
        made(key, content, len).chunks_exact(size_of::<T>()).map(T::read).collect()
    }

    /// Input `index` of all ranks, as it goes into the addition.
    fn inputs<T: Element>(key: &DataKey, op: RedOp, index: u64) -> Vec<T> {
        let raw = elements::<T>(key, Content::Input { rank: 0, chunk: 1, first: index }, key.ranks);
        match op {
            RedOp::Avg => raw.into_iter().map(|x| x.before_avg(key.ranks)).collect(),
            RedOp::MulSum => raw
                .into_iter()
                .zip(0..)
                .map(|(x, rank)| x.times(T::read(&scalar(key.dtype, rank)[..size_of::<T>()])))
                .collect(),
            _ => raw,
        }
    }

    fn reduced<T: Element>(key: &DataKey, index: u64) -> T {
        elements(key, Content::Reduced { first: index }, 1)[0]
    }

    fn finish<T: Element>(op: RedOp, ranks: u64, total: T) -> T {
        if op == RedOp::Avg { total.after_avg(ranks) } else { total }
    }

    fn fold<T: Element>(op: RedOp, values: impl IntoIterator<Item = T>) -> Option<T> {
        values.into_iter().reduce(|a, b| a.combine(op, b))
    }

    /// A small generator for orders: proptest's own would record each of millions of choices.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            ((u128::from(self.0) * bound as u128) >> 64) as usize
        }
    }

    /// Combines two random partial results until one is left: any order and any association can come out.
    fn random_tree<T: Element>(op: RedOp, mut values: Vec<T>, dice: &mut Dice) -> T {
        while values.len() > 1 {
            let a = values.swap_remove(dice.below(values.len()));
            let at = dice.below(values.len());
            values[at] = values[at].combine(op, a);
        }
        values[0]
    }

    fn keys() -> impl Iterator<Item = (DataKey, RedOp)> {
        let keys = |(dtype, op): (DType, RedOp)| {
            RANKS.map(|ranks| (DataKey { dtype, redop: Some(op), ranks, seed: ranks ^ 0x77 }, op))
        };
        let all = DType::ALL.into_iter().flat_map(|dtype| RedOp::ALL.map(|op| (dtype, op))).flat_map(keys);
        all.filter(|(key, op)| key.ranks <= most_ranks(key.dtype, Some(*op)))
    }

    fn any_order_gives_reduced<T: Element>(key: &DataKey, op: RedOp) {
        let mut dice = Dice(key.ranks);
        for index in [0, 1, 2, 3, 4094, 4097, u64::from(u32::MAX) - 1, 0x12_3456_789a] {
            let mut values = inputs::<T>(key, op, index);
            let want = reduced::<T>(key, index).bits();
            for _ in 0..2 {
                let got = finish(op, key.ranks, random_tree(op, values.clone(), &mut dice));
                assert_eq!(got.bits(), want, "{key:?} at {index}: {got:?}");
            }
            // All that is positive first: the greatest partial sum there is.
            values.sort_by(|a, b| b.partial_cmp(a).expect("no NaN"));
            let got = finish(op, key.ranks, fold(op, values).expect("a rank"));
            assert_eq!(got.bits(), want, "{key:?} at {index}, sorted: {got:?}");
        }
    }

    #[test]
    fn every_order_and_association_gives_the_reduced_value_bit_for_bit() {
        for (key, op) in keys() {
            with_type!(key.dtype, any_order_gives_reduced(&key, op));
        }
    }

    /// Inputs that are not negative and add up to the result without wrapping: no subset's sum overflows either.
    #[test]
    fn no_sum_of_8_bit_integers_overflows() {
        for ranks in (1..=40).chain([64, 1000, 4095, MAX_RANKS]) {
            let key = |dtype| DataKey { dtype, redop: Some(RedOp::Sum), ranks, seed: ranks };
            let indices = if ranks > 40 { 0..50 } else { 0..1000 };
            for index in indices.chain([16_383, 16_384, (1 << 34) - 1, 1 << 34]) {
                let values = inputs::<i8>(&key(DType::Int8), RedOp::Sum, index);
                assert!(values.iter().all(|value| *value >= 0), "{ranks} ranks at {index}: {values:?}");
                let total: i64 = values.iter().map(|value| i64::from(*value)).sum();
                assert!(total <= i8::MAX.into(), "{ranks} ranks at {index}: {values:?}");
                assert_eq!(total, i64::from(reduced::<i8>(&key(DType::Int8), index)), "{ranks} ranks at {index}");
                let unsigned = inputs::<u8>(&key(DType::Uint8), RedOp::Sum, index);
                assert!(values.into_iter().map(i8::cast_unsigned).eq(unsigned), "{ranks} ranks at {index}");
                let active = inputs::<i8>(&key(DType::Int8), RedOp::Sum, index).into_iter().filter(|x| *x > 0).count();
                assert!(active as u64 + 1 >= ranks.min(STAIRS), "{ranks} ranks at {index}: {active} matter");
            }
        }
    }

    /// A fused multiplication and addition, which compilers may choose, stays within the tolerance.
    #[test]
    fn a_fused_average_is_within_two_ulp() {
        for ranks in (3..MAX_RANKS).filter(|n| !n.is_power_of_two()) {
            let key = DataKey { dtype: DType::Float, redop: Some(RedOp::Avg), ranks, seed: 5 };
            let share = (1.0 / ranks as f64) as f32;
            let raw = elements::<f32>(&key, Content::Input { rank: 0, chunk: 1, first: ranks }, ranks);
            let got = raw.into_iter().fold(0.0, |sum: f32, x| x.mul_add(share, sum));
            assert_eq!(count_wrong(&key, &Content::Reduced { first: ranks }, &got.to_le_bytes()), 0, "{ranks} ranks");
        }
    }

    /// A chain that rounds once, at its end, stays within the tolerance of floats of 8 bits too, whose units are large.
    #[test]
    fn an_average_that_is_rounded_once_is_within_two_ulp() {
        fn check<const M: u32>(dtype: DType) {
            for ranks in (3..=most_ranks(dtype, Some(RedOp::Avg)).min(MAX_RANKS)).filter(|n| !n.is_power_of_two()) {
                let key = DataKey { dtype, redop: Some(RedOp::Avg), ranks, seed: 3 };
                let share = F8::<M>::nearest((1.0 / ranks as f64) as f32).value();
                let raw = elements::<F8<M>>(&key, Content::Input { rank: 0, chunk: 1, first: ranks }, ranks);
                let got = F8::<M>::nearest(raw.into_iter().map(|x| x.value() * share).sum());
                assert_eq!(
                    count_wrong(&key, &Content::Reduced { first: ranks }, &[got.0]),
                    0,
                    "{ranks} ranks: {got:?}"
                );
            }
        }
        check::<3>(DType::F8e4m3);
        check::<2>(DType::F8e5m2);
    }

    /// A library that forgets the scalars, or multiplies by those of other ranks, is found out.
    #[test]
    fn a_mulsum_depends_on_its_scalars() {
        fn check<T: Element>(key: &DataKey) {
            let wrong = |index| {
                let raw = elements::<T>(key, Content::Input { rank: 0, chunk: 1, first: index }, key.ranks);
                fold(RedOp::MulSum, raw).expect("a rank").bits() != reduced::<T>(key, index).bits()
            };
            assert!((0..300).any(wrong), "{key:?}");
        }
        for (key, _) in keys().filter(|(key, op)| *op == RedOp::MulSum && key.ranks > 1) {
            with_type!(key.dtype, check(&key));
        }
    }

    #[test]
    fn averages_of_floats_hold_for_every_number_of_ranks() {
        for ranks in 1..=MAX_RANKS {
            let has = |dtype: &DType| dtype.is_float() && ranks <= most_ranks(*dtype, Some(RedOp::Avg));
            for dtype in DType::ALL.into_iter().filter(has) {
                let key = DataKey { dtype, redop: Some(RedOp::Avg), ranks, seed: ranks };
                let most = if cfg!(debug_assertions) { 40 } else { MAX_RANKS };
                if ranks <= most || ranks % 97 == 0 {
                    with_type!(dtype, average_holds(&key));
                }
            }
        }
    }

    fn average_holds<T: Element>(key: &DataKey) {
        let got = fold(RedOp::Avg, inputs::<T>(key, RedOp::Avg, 11)).expect("a rank");
        assert_eq!(got.bits(), reduced::<T>(key, 11).bits(), "{key:?}");
    }

    /// Does the average of 8-bit integers say anything at all? Above that many ranks it is 0, whatever the data.
    fn mute(key: &DataKey, op: RedOp) -> bool {
        op == RedOp::Avg && key.dtype.size() == 1 && key.ranks > 64
    }

    fn faults_show<T: Element>(key: &DataKey, op: RedOp) {
        let mut dice = Dice(key.ranks);
        for _ in 0..8 {
            let rank = dice.below(key.ranks as usize);
            let other = (rank + 1 + dice.below(key.ranks.max(2) as usize - 1)) % key.ranks as usize;
            let (mut lost, mut doubled, mut exchanged) = (0, 0, 0);
            for index in 0..300 {
                let mut values = inputs::<T>(key, op, index);
                let wrong =
                    |total: T| u64::from(finish(op, key.ranks, total).bits() != reduced::<T>(key, index).bits());
                let all = fold(op, values.clone()).expect("a rank");
                doubled += wrong(all.combine(op, values[rank]));
                values[rank] = values[other];
                exchanged += wrong(fold(op, values.clone()).expect("a rank"));
                values.swap_remove(rank);
                lost += fold(op, values).map_or(1, wrong);
            }
            assert!(lost > 0, "{key:?}: losing rank {rank} does not show");
            assert!(exchanged > 0 || key.ranks == 1, "{key:?}: rank {other} for rank {rank} does not show");
            assert!(
                doubled > 0 || matches!(op, RedOp::Max | RedOp::Min),
                "{key:?}: doubling rank {rank} does not show"
            );
        }
    }

    #[test]
    fn a_lost_doubled_or_exchanged_rank_shows_within_300_elements() {
        for (key, op) in keys().filter(|(key, op)| key.ranks <= 64 && !mute(key, *op)) {
            with_type!(key.dtype, faults_show(&key, op));
        }
    }

    fn every_rank_matters<T: Element>(key: &DataKey, op: RedOp) {
        // Of max and min only the winner matters: that is one rank an element, in any data. Of an avg without an exact
        // 1/n it is two, and of a sum of 8-bit integers a few.
        let winner = matches!(op, RedOp::Max | RedOp::Min);
        let small = matches!(op, RedOp::Sum | RedOp::MulSum) && key.dtype.size() == 1
            || key.dtype.is_float8() && matches!(op, RedOp::Avg | RedOp::Prod);
        let rare = winner || small || op == RedOp::Avg && key.dtype.name() != "int8" && !key.ranks.is_power_of_two();
        let len = if rare { 4 * key.ranks } else { 400 };
        let results = elements::<T>(key, Content::Reduced { first: 0 }, len);
        for rank in [0, 1, key.ranks / 3, key.ranks / 2, key.ranks - 2, key.ranks - 1] {
            let values = elements::<T>(key, Content::Input { rank, chunk: len, first: 0 }, len);
            let shows = |(result, value): (&T, T)| match op {
                RedOp::Max | RedOp::Min => value.bits() == result.bits(),
                _ => result.combine(op, value).bits() != result.bits(),
            };
            assert!(results.iter().zip(values).any(shows), "{key:?}: rank {rank} never matters");
        }
    }

    #[test]
    fn every_one_of_thousands_of_ranks_matters() {
        for (key, op) in keys().filter(|(key, _)| key.ranks > 64) {
            with_type!(key.dtype, every_rank_matters(&key, op));
        }
    }

    #[test]
    fn a_short_message_depends_on_as_many_ranks_as_it_can() {
        for dtype in DType::ALL {
            let key = DataKey { dtype, redop: Some(RedOp::Max), ranks: 16, seed: 1 };
            let winners = |rank: &u64| {
                let own = made(&key, Content::Input { rank: *rank, chunk: 16, first: 0 }, 16);
                let size = dtype.size() as usize;
                let best = made(&key, Content::Reduced { first: 0 }, 16);
                own.chunks(size).zip(best.chunks(size)).any(|(a, b)| a == b)
            };
            assert_eq!((0..16).filter(winners).count(), 16, "{dtype:?}");
        }
    }

    /// Marks far apart in index, slot or seed have nothing in common: about one bit in two differs.
    #[test]
    fn streams_look_random() {
        let recipe = |seed| {
            let key = DataKey { dtype: DType::Uint32, redop: None, ranks: 2, seed };
            Recipe::new(&key, &Content::Input { rank: 0, chunk: 1, first: 0 })
        };
        let apart = |f: &dyn Fn(u64) -> (u32, u32)| {
            (0..4000).map(f).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() as f64 / (4000.0 * 32.0)
        };
        let (a, b) = (recipe(1), recipe(2));
        let pairs: [&dyn Fn(u64) -> (u32, u32); 4] = [
            &|i| (a.word(i, 3), a.word(i, 4)),
            &|i| (a.word(i, 3), a.word(i + 1, 3)),
            &|i| (a.word(i, 3), b.word(i, 3)),
            &|i| (a.word(i, 3), a.word(i + (1 << 32), 3)),
        ];
        for (nth, pair) in pairs.into_iter().enumerate() {
            let share = apart(pair);
            assert!((share - 0.5).abs() < 0.01, "pair {nth}: {share}");
        }
    }

    fn any_key() -> impl Strategy<Value = DataKey> {
        let op = prop_oneof![Just(None), select(RedOp::ALL.to_vec()).prop_map(Some)];
        (select(DType::ALL.to_vec()), op, 1..=MAX_RANKS, any::<u64>()).prop_map(|(dtype, redop, ranks, seed)| DataKey {
            dtype,
            redop,
            ranks,
            seed,
        })
    }

    fn any_content() -> impl Strategy<Value = Content> {
        let first = prop_oneof![0..9000u64, 0..1u64 << 40];
        prop_oneof![
            (0..MAX_RANKS, 1..50u64, first.clone()).prop_map(|(rank, chunk, first)| Content::Input {
                rank,
                chunk,
                first
            }),
            first.prop_map(|first| Content::Reduced { first }),
            Just(Content::Sentinel),
        ]
    }

    /// Keeps `content` within the ranks of `key`, `len` elements on.
    fn within(key: &mut DataKey, content: &Content, len: u64) {
        if let Content::Input { rank, chunk, .. } = content {
            key.ranks = key.ranks.max(rank + len / chunk + 1);
        }
    }

    proptest! {
        #[test]
        fn a_stretch_is_its_elements_one_by_one(mut key in any_key(), content in any_content(), len in 1..200u64) {
            within(&mut key, &content, len);
            let size = key.dtype.size() as usize;
            for (k, element) in (0..).zip(made(&key, content, len).chunks(size)) {
                let alone = match content {
                    Content::Input { rank, chunk, first } => {
                        Content::Input { rank: rank + k / chunk, chunk: 1, first: first + k % chunk }
                    }
                    Content::Reduced { first } => Content::Reduced { first: first + k },
                    Content::Sentinel => content,
                };
                prop_assert_eq!(element, made(&key, alone, 1), "element {}", k);
            }
        }

        #[test]
        fn each_wrong_element_is_counted_once(
            mut key in any_key(), content in any_content(), len in 1..6000u64,
            hits in prop::collection::btree_set(0..6000usize, 0..9),
        ) {
            within(&mut key, &content, len);
            let mut got = made(&key, content, len);
            prop_assert_eq!(count_wrong(&key, &content, &got), 0);
            let size = key.dtype.size() as usize;
            let hits: Vec<usize> = hits.into_iter().filter(|at| *at < len as usize).collect();
            for at in &hits {
                got[at * size + size - 1] ^= 0x80;
            }
            prop_assert_eq!(count_wrong(&key, &content, &got), hits.len() as u64);
        }

        #[test]
        fn a_planted_fault_is_out_of_tolerance(mut key in any_key(), content in any_content(), len in 1..60u64) {
            within(&mut key, &content, len);
            let mut got = made(&key, content, len);
            for element in got.chunks_mut(key.dtype.size() as usize) {
                element[0] ^= fault_in(&key, &content);
            }
            prop_assert_eq!(count_wrong(&key, &content, &got), len);
        }

        #[test]
        fn floats_hold_no_sentinel(mut key in any_key(), first in 0..1u64 << 40, op in select(RedOp::ALL.to_vec())) {
            key.redop = Some(op);
            prop_assume!(key.dtype.is_float());
            for content in [Content::Input { rank: key.ranks - 1, chunk: 99, first }, Content::Reduced { first }] {
                prop_assert_eq!(count_wrong(&key, &Content::Sentinel, &made(&key, content, 99)), 99);
                prop_assert_eq!(count_wrong(&key, &content, &made(&key, Content::Sentinel, 99)), 99);
            }
        }
    }

    #[test]
    fn only_an_inexact_average_has_a_tolerance_and_it_is_two_ulp() {
        for (key, op) in keys() {
            let content = Content::Reduced { first: 8 };
            let inexact = op == RedOp::Avg && !key.ranks.is_power_of_two() && key.dtype.is_float();
            for off in [1, 2, 3] {
                let mut got = made(&key, content, 1);
                let mut wide = [0; 8];
                wide[..got.len()].copy_from_slice(&got);
                let moved = (u64::from_le_bytes(wide) ^ 4).wrapping_add(off) ^ 4;
                let size = got.len();
                got.copy_from_slice(&moved.to_le_bytes()[..size]);
                let distance = distance(&got, &made(&key, content, 1));
                let wrong = if inexact { distance > 2 } else { distance > 0 };
                assert_eq!(count_wrong(&key, &content, &got), u64::from(wrong), "{key:?} off by {distance}");
            }
        }
    }

    #[test]
    fn zeros_of_either_sign_are_no_distance_apart() {
        assert_eq!(distance(&0.0f32.to_le_bytes(), &(-0.0f32).to_le_bytes()), 0);
        assert_eq!(distance(&f32::from_bits(1).to_le_bytes(), &(-f32::from_bits(1)).to_le_bytes()), 2);
        assert_eq!(distance(&1.0f64.to_le_bytes(), &(1.0f64 + f64::EPSILON).to_le_bytes()), 1);
    }
}
