//! Arithmetic on the bits of integers and floats.

/// Returns the number of elements of W bits that share a word of a stream, and therefore a slot.
#[inline]
pub(super) const fn lanes(w: u32) -> u64 {
    if w < 32 { 32 / w as u64 } else { 1 }
}

/// Returns all bits or none. The conditions are practically random, and a mispredicted branch would
/// cost more than it saves.
#[inline]
pub(super) fn when(condition: bool) -> u64 {
    u64::from(condition).wrapping_neg()
}

/// Returns a mask of the low `bits` bits.
#[inline]
pub(super) const fn ones(bits: u32) -> u64 {
    if bits == 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Returns the exponent field of numbers in 1..2 of a float with W bits, M of them after the point.
#[inline]
pub(super) const fn bias(w: u32, m: u32) -> u64 {
    ones(w - 2 - m)
}

/// Returns the inverse of an odd number modulo 2^64: an odd number is its own inverse modulo 8, and
/// each step doubles the number of correct bits.
#[inline]
pub(super) fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |x, _| {
        x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)))
    })
}

/// Returns the bits of `x` as a float of W bits, rounded to nearest, ties to even. `x` must be zero
/// or normal in the type.
#[inline]
pub(super) fn narrow<const W: u32, const M: u32>(x: f64) -> u64 {
    if W == 64 {
        return x.to_bits();
    }
    let bits = x.to_bits() & ones(63);
    let drop = 52 - M;
    let rounded = (bits + ones(drop - 1) + (bits >> drop & 1)) >> drop;
    let rebased = rounded.wrapping_sub((bias(64, 52) - bias(W, M)) << M) & when(bits != 0);
    rebased | x.to_bits() >> 63 << (W - 1)
}

/// Returns the value of a float of W bits, which must be zero or normal.
#[inline]
pub(super) fn widen<const W: u32, const M: u32>(bits: u64) -> f64 {
    let magnitude = bits & ones(W - 1);
    let rebias = if magnitude == 0 {
        0
    } else {
        (bias(64, 52) - bias(W, M)) << M
    };
    f64::from_bits((magnitude + rebias) << (52 - M) | bits >> (W - 1) << 63)
}
