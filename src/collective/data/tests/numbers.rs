//! Arithmetic in each type as a library does it, written apart from the generator.

use std::fmt::Debug;

use half::{bf16, f16};

use crate::collective::data::{
    RedOp,
    bits::{narrow, ones, widen},
};

/// Arithmetic as a library does it: in the type, rounding at each step. Written apart from the
/// generator.
pub(super) trait Element: Copy + PartialOrd + Debug + 'static {
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
pub(super) struct F8<const M: u32>(pub(super) u8);

impl<const M: u32> F8<M> {
    /// The greatest positive number's bits: e4m3 has no infinity, and one NaN.
    const GREATEST: u8 = if M == 3 { 0x7e } else { 0x7b };

    pub(super) fn value(self) -> f32 {
        let (exponent, fraction) = (
            i32::from(self.0 & 0x7f) >> M,
            f32::from(self.0 & ((1 << M) - 1)),
        );
        let bias = (1 << (6 - M)) - 1;
        let scale = |exponent: i32| 2_f32.powi(exponent - bias - M as i32);
        let hidden = (1 << M) as f32;
        let magnitude = if exponent == 0 {
            fraction * scale(1)
        } else {
            (hidden + fraction) * scale(exponent)
        };
        if self.0 >> 7 == 1 {
            -magnitude
        } else {
            magnitude
        }
    }

    /// The nearest of all numbers there are; of two the one that is even.
    pub(super) fn nearest(x: f32) -> Self {
        let value = |bits: u8| F8::<M>(bits).value();
        // The first that is not below, by halving.
        let (mut low, mut above) = (0, Self::GREATEST);
        while low < above {
            let middle = low.midpoint(above);
            (low, above) = if value(middle) < x.abs() {
                (middle + 1, above)
            } else {
                (low, middle)
            };
        }
        let below = above.saturating_sub(1);
        let (up, down) = (value(above) - x.abs(), x.abs() - value(below));
        let bits = if down < up || down == up && below % 2 == 0 {
            below
        } else {
            above
        };
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
    assert_eq!(
        (
            F8::<3>::nearest(17.0).value(),
            F8::<3>::nearest(19.0).value()
        ),
        (16.0, 20.0)
    );
    for bits in (0x08..0x78).chain(0x88..0xf8) {
        let value = f64::from(F8::<3>(bits).value());
        assert_eq!(
            (narrow::<8, 3>(value), widen::<8, 3>(bits.into())),
            (bits.into(), value)
        );
        let value = f64::from(F8::<2>(bits).value());
        assert_eq!(
            (narrow::<8, 2>(value), widen::<8, 2>(bits.into())),
            (bits.into(), value)
        );
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
pub(super) use with_type;
