//! What buffers hold: element types, reduction operations, and the value of every element before
//! and after a collective.
//!
//! `types` has the names, `content` what a stretch of a buffer is to hold, `recipe` what follows
//! from that for all of its elements, `element` the value of each, on `bits`; `check` fills buffers
//! and counts what is wrong in them, and `search` finds the first. The same values are made on the
//! GPU by `backend/nccl/kernels.cu`, which gets the recipe; the two must agree byte for byte.
//!
//! # How a result is known without reducing anything
//!
//! Inputs telescope. At each index every slot (a rank, or a rank's place after a rotation) has a
//! pseudo-random *mark*, the slot after the last has the identity of the operation, and a slot's
//! input is its own mark with its successor's mark undone: `mark(s) - mark(s + 1)` for a sum,
//! `mark(s) / mark(s + 1)` for a product. Whatever the number of ranks, the reduction of all inputs
//! is `mark(0)`, and it is exactly what a lone rank would put in; so [`Content::Reduced`] is the
//! input of a communicator of one, made by the same code at the same cost. Yet a lost, doubled,
//! stale or exchanged contribution of *any* rank changes the result, at nearly every element where
//! the type has room for it.
//!
//! For mulsum a rank's input is not what it adds: the library multiplies it by [`scalar`] before.
//!
//! # Why it is exact in every order
//!
//! NCCL may add in any order, so every partial result of every subset of ranks must be exact in the
//! type.
//!
//! - Integers, sum and prod: arithmetic modulo 2^w is a ring. Marks of a product are odd, so each
//!   has an inverse.
//! - Integers of 8 bits, sum: neither MPI nor NCCL says what a sum does that does not fit, and
//!   there are MPI libraries that add 8-bit integers with saturation. So marks fall by 1 to 31 from
//!   slot to slot, from at most 127, in a window of 8 slots, and are 0 in all others: inputs are
//!   not negative, and each subset's sum fits both types. A sum has 4 random bits. An avg keeps the
//!   ring: only NCCL has it, and NCCL's sum wraps.
//! - Floats, sum: inputs are integers times one power of two an index. With marks in `0..=M` in a
//!   *window* of A slots and 0 outside, the positive inputs of an index add up to at most
//!   `M * ceil(A / 2)`: each is a fall of the sequence of marks, which starts at most at M and must
//!   rise again before it can fall again. The negative ones add up to mark(0) less.
//!   `M * ceil(A / 2) <= 2^p` for a significand of p bits, so each subset's sum is an integer of
//!   magnitude at most 2^p, which the type has. Sums that are zero are +0 in each order: inputs are
//!   never -0, and rounding to nearest gives `x - x = +0`. The window is all ranks but for bfloat16
//!   (512) and floats of 8 bits (32 and 16); ranks rotate through it from unit to unit, so that
//!   every rank is in it equally often; so they do in sums of 8-bit integers. That NCCL adds and
//!   multiplies floats of 8 bits as half, and rounds then, makes no difference: half has all of
//!   these numbers.
//! - Floats, prod: each rank brings a sign, slots in a window bring 2^-1, 1 or 2, and slot 0 alone
//!   has a significand. A partial product is therefore a significand times a power of two, which is
//!   exact while it is a normal number; the bound above, with M = 1, keeps the exponent within
//!   `ceil(A / 2)`: 6 for f8e4m3, 12 for half and f8e5m2, 100, and 1000 for double.
//! - mulsum: what even ranks bring is multiplied by 1, what odd ranks bring by 2, and then it is a
//!   sum. Floats: an odd rank brings half of what it would bring to a sum, so that the product is
//!   that again; halving and doubling change only the exponent, which is far from its ends.
//!   Integers: 2 has no inverse in the ring, but an even number has a half. All marks but that of
//!   slot 0 are even, so that every input is, but that of rank 0, whose scalar is 1: an odd rank
//!   brings half of its own. As only NCCL has a mulsum, 8 bits keep the ring as in an avg.
//! - max and min round nothing. Slot 0 has the winner, all others draw below it; no NaN, infinity,
//!   zero or subnormal number, for which implementations differ (`-0 < +0`?).
//! - avg of integers: NCCL adds modulo 2^w and divides by the number of ranks. The sum has no sign
//!   bit, so that it makes no difference how a library rounds negative quotients.
//! - avg of floats: NCCL multiplies each input by 1/n rounded in the type, and adds. If n is a
//!   power of two that is exact and inputs are those of a sum. Else just two ranks an index are not
//!   zero, both of one sign; the result is computed in that very chain, and since a compiler may
//!   fuse the multiplication with the addition, 2 ulp are allowed: each of the three roundings is
//!   off by half of one at most, of the result or of what is smaller, and a chain with fewer of
//!   them is off by less. Nothing else has a tolerance. It takes 1/n and the products to be normal
//!   numbers, which f8e4m3 has down to 1/64: [`most_ranks`].

mod bits;
mod check;
mod content;
mod element;
mod encoding;
mod recipe;
mod search;
#[cfg(test)]
mod tests;
mod types;

pub use check::{count_wrong, count_wrong_noting, fault_in, write, write_noting};
pub use content::{Content, DataKey, MAX_RANKS, Region, most_ranks, scalar};
pub use encoding::ElementEncoding;
pub use recipe::{Form, Recipe};
pub use search::{first_wrong, split};
pub use types::{DType, RedOp};
