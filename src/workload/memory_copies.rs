//! [`MemoryCopies`]: copies within the memory of a device, and [`CopiesByLength`], which adds them
//! up.

use std::ops::Range;

use anyhow::ensure;

use super::limits::{MOST_BYTES, MOST_PIECES};
use crate::units::{Bytes, counted};

/// Bytes per second that a GPU is taken to read and write in its memory: 4 TB/s, five sixths of
/// what an H200 has.
pub const MEMORY_RATE: f64 = 4e12;

/// Pieces begin at multiples of this, unless they are shorter: a GPU copies aligned memory faster.
const ALIGNMENT: u64 = 16;

/// The most bytes of a short copy, which takes a GPU hardly longer than one of a few bytes. On an
/// H200, copies of 256 bytes took 0.9 us, of 64 KiB 1.4 us, of 1 MiB 2.0 us and of 8 MiB 5.7 us.
const SHORT: u64 = 64 << 10;

/// Copies within the memory of a device, one after another, such as those between gradients and
/// their bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCopies {
    /// The bytes of all copies together.
    pub bytes: Bytes,
    /// How many copies there are. They are about equally long.
    pub pieces: u32,
}

impl MemoryCopies {
    /// Returns which of the bytes the copy with this number has. Numbers begin at 0.
    pub fn piece(&self, number: u32) -> Range<u64> {
        self.begin(number)..self.begin(number + 1)
    }

    /// Returns where the copy with this number begins, which is where the one before it ends.
    fn begin(&self, number: u32) -> u64 {
        if number >= self.pieces {
            return self.bytes.0;
        }
        let pieces = u64::from(self.pieces);
        let product = u128::from(self.bytes.0) * u128::from(number);
        let begin = (product / u128::from(pieces)) as u64;
        if self.bytes.0 / pieces < ALIGNMENT {
            return begin;
        }
        begin / ALIGNMENT * ALIGNMENT
    }

    /// Checks that there are copies, and that each has at least a byte.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let MemoryCopies { bytes, pieces } = *self;
        ensure!(
            (1..=MOST_PIECES).contains(&pieces),
            "its number of pieces, {pieces}, is not from 1 to {MOST_PIECES}; correct it"
        );
        ensure!(
            bytes <= MOST_BYTES,
            "it copies {bytes}, more than {MOST_BYTES}; make it smaller"
        );
        ensure!(
            bytes.0 >= pieces.into(),
            "it copies {} in {}, and a piece has at least one; copy more, or in fewer pieces",
            counted(bytes.0, "byte"),
            counted(pieces, "piece")
        );
        Ok(())
    }
}

/// Copies of different lengths, the short ones apart from the others: the pieces of
/// [`MemoryCopies`] are about equally long, and a few large gradients beside many small ones would
/// make all of them large.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopiesByLength {
    short: MemoryCopies,
    long: MemoryCopies,
}

impl CopiesByLength {
    /// Adds a copy of `bytes` bytes, at least one. No sum exceeds what an operation may copy.
    pub(super) fn add(&mut self, bytes: u64) {
        let bytes = bytes.clamp(1, MOST_BYTES.0);
        let sum = match bytes <= SHORT {
            true => &mut self.short,
            false => &mut self.long,
        };
        sum.bytes = Bytes((sum.bytes.0 + bytes).min(MOST_BYTES.0));
        sum.pieces = (sum.pieces + 1).min(MOST_PIECES);
    }

    /// Returns the long copies; `None` if there are none.
    pub(super) fn long(&self) -> Option<MemoryCopies> {
        (self.long.pieces > 0).then_some(self.long)
    }

    /// Returns the short copies; `None` if there are none.
    pub(super) fn short(&self) -> Option<MemoryCopies> {
        (self.short.pieces > 0).then_some(self.short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_copies_are_added_up_apart_from_long_ones() {
        let mut copies = CopiesByLength::default();
        assert_eq!((copies.long(), copies.short()), (None, None));
        for bytes in [0, 256, 65_536, 65_537, 9_437_184] {
            copies.add(bytes);
        }
        let of = |bytes, pieces| MemoryCopies {
            bytes: Bytes(bytes),
            pieces,
        };
        assert_eq!(copies.long(), Some(of(9_502_721, 2)));
        assert_eq!(copies.short(), Some(of(65_793, 3)));
        copies.add(u64::MAX);
        copies.add(u64::MAX);
        let long = copies.long().expect("long copies");
        assert_eq!(long, of(MOST_BYTES.0, 4));
        long.check().expect("possible");
    }

    #[test]
    fn pieces_follow_each_other_are_about_equal_and_have_all_bytes() {
        for (bytes, pieces) in [
            (1, 1),
            (100, 7),
            (7, 7),
            (113, 7),
            (30_257_056, 14),
            (MOST_BYTES.0, MOST_PIECES),
        ] {
            let copies = MemoryCopies {
                bytes: Bytes(bytes),
                pieces,
            };
            copies.check().expect("possible");
            let mut end = 0;
            for number in 0..pieces {
                let piece = copies.piece(number);
                assert_eq!(piece.start, end);
                end = piece.end;
                let length = piece.end - piece.start;
                let equal = bytes / u64::from(pieces);
                assert!(
                    length > 0 && length.abs_diff(equal) <= ALIGNMENT,
                    "{piece:?}"
                );
                assert!(equal < ALIGNMENT || piece.start.is_multiple_of(ALIGNMENT));
            }
            assert_eq!(end, bytes);
        }
    }
}
