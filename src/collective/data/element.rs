//! The value of each element of a stretch, from its [`Recipe`].

use std::iter;

use super::{
    bits::{bias, inverse, lanes, narrow, ones, when, widen},
    encoding::ElementEncoding,
    recipe::{Form, Recipe, STEP},
};

/// A slot that no rank has, for values that all ranks share.
const INDEX_SLOT: u32 = u32::MAX;
/// A slot that no rank has, for the random turns of the rotation.
const PHASE_SLOT: u32 = u32::MAX - 1;

/// Units between two random turns of the rotation.
const TURN: u64 = 4096;

impl Recipe {
    /// Returns the bytes of a chunk in a buffer of `whole` bytes; never 0.
    pub(super) fn chunk_bytes(&self, whole: usize) -> usize {
        usize::try_from(self.chunk.saturating_mul(self.kind.bytes() as u64))
            .unwrap_or(usize::MAX)
            .min(whole.max(1))
    }

    /// Fills `out` with elements `from..` of `rank`.
    pub(super) fn fill(&self, rank: u32, from: u64, out: &mut [u8]) {
        match self.kind {
            _ if self.form == Form::Sentinel => out.fill(0xff),
            ElementEncoding::Bits8 => self.fill_bits::<8>(rank, from, out),
            ElementEncoding::Bits16 => self.fill_bits::<16>(rank, from, out),
            ElementEncoding::Bits32 => self.fill_bits::<32>(rank, from, out),
            ElementEncoding::Bits64 => self.fill_bits::<64>(rank, from, out),
            ElementEncoding::Half => self.fill_floats::<16, 10>(rank, from, out),
            ElementEncoding::Bfloat16 => self.fill_floats::<16, 7>(rank, from, out),
            ElementEncoding::Float => self.fill_floats::<32, 23>(rank, from, out),
            ElementEncoding::Double => self.fill_floats::<64, 52>(rank, from, out),
            ElementEncoding::F8e4m3 => self.fill_floats::<8, 3>(rank, from, out),
            ElementEncoding::F8e5m2 => self.fill_floats::<8, 2>(rank, from, out),
        }
    }

    /// Fills `out` with integers or raw bits of width W. There is one loop per form, so the form is
    /// not tested per element.
    fn fill_bits<const W: u32>(&self, rank: u32, from: u64, out: &mut [u8]) {
        match self.form {
            Form::Product => each::<W>(from, out, |i| self.int_product::<W>(i, rank)),
            Form::Extreme => self.each_slot::<W>(rank, from, out, |i, slot| {
                self.order::<W>(i, slot, None) ^ self.flip
            }),
            Form::Stairs => {
                self.each_slot::<W>(rank, from, out, |i, slot| self.stairs::<W>(i, slot))
            }
            Form::Scaled => each::<W>(from, out, |i| self.int_scaled::<W>(i, rank)),
            Form::Mean => each::<W>(from, out, |i| {
                (self.bits::<W>(i, 0) & self.head) / u64::from(self.ranks)
            }),
            _ => each::<W>(from, out, |i| self.int_sum::<W>(i, rank)),
        }
    }

    /// Fills `out` with floats of W bits, M of them after the point of the significand.
    fn fill_floats<const W: u32, const M: u32>(&self, rank: u32, from: u64, out: &mut [u8]) {
        let share = if self.form == Form::Scaled && rank % 2 == 1 {
            0.5
        } else {
            1.0
        };
        match self.form {
            Form::Product => self.each_slot::<W>(rank, from, out, |i, slot| {
                self.float_product::<W, M>(i, slot)
            }),
            Form::Extreme => self.each_slot::<W>(rank, from, out, |i, slot| {
                self.float_extreme::<W, M>(i, slot)
            }),
            Form::Pair => {
                self.each_slot::<W>(rank, from, out, |i, slot| self.pair::<W, M>(i, slot))
            }
            Form::Mean => each::<W>(from, out, |i| self.mean::<W, M>(i)),
            _ => self.each_slot::<W>(rank, from, out, |i, slot| {
                self.float_sum::<W, M>(i, slot, share)
            }),
        }
    }

    /// Stores `value(i, slot)` for elements `from..`, where `slot` is that of `rank` in the unit of
    /// element `i`.
    ///
    /// Ranks advance by a stride from unit to unit, so that even in a short message each rank
    /// visits each slot and each window. They also rotate by a random number of slots every
    /// [`TURN`] units, so that no rank is tied to one lane of a vector or to one position in the
    /// library's own chunks.
    fn each_slot<const W: u32>(
        &self,
        rank: u32,
        from: u64,
        out: &mut [u8],
        value: impl Fn(u64, u32) -> u64,
    ) {
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
                slot += if i % lanes(W) == lanes(W) - 1 {
                    self.stride
                } else {
                    0
                };
                slot -= if slot >= self.ring { self.ring } else { 0 };
                value(i, own)
            });
        }
    }

    /// Returns the slot of `rank` in a unit.
    fn slot(&self, unit: u64, rank: u32) -> u32 {
        let phase = (u64::from(self.word(unit / TURN, PHASE_SLOT)) * u64::from(self.ring)) >> 32;
        (rank + phase as u32 + (unit % TURN) as u32 * self.stride) % self.ring
    }

    /// Returns word `at` of the random stream of `slot`. It uses 32-bit multiplications and shifts,
    /// which GPUs have in hardware; the slot enters between the two rounds, so that a slot and its
    /// successor share the first.
    pub(super) fn word(&self, at: u64, slot: u32) -> u32 {
        let mut x = at as u32 ^ self.key[0];
        x ^= x >> 16;
        x = x.wrapping_mul(0x3152_5adb).wrapping_add(self.key[1]);
        x = x
            .wrapping_add(((at >> 32) as u32).wrapping_mul(0x9af3_655b))
            .wrapping_add(slot.wrapping_mul(0x6322_ee4f));
        x ^= x >> 15;
        x = x.wrapping_mul(0x18ed_63b5);
        x ^ x >> 16
    }

    /// Returns the W bits of `slot`'s stream that belong to element `i`. The stream runs along the
    /// elements byte by byte, so narrow elements share a word, the *unit*.
    fn bits<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        if W == 64 {
            return u64::from(self.word(2 * i, slot)) | u64::from(self.word(2 * i + 1, slot)) << 32;
        }
        u64::from(self.word(i / lanes(W), slot) >> ((i % lanes(W)) as u32 * W)) & ones(W)
    }

    /// Returns the random word that all ranks and all elements of the unit of `i` share.
    fn shared<const W: u32>(&self, i: u64) -> u32 {
        self.word(if W == 64 { 2 * i } else { i / lanes(W) }, INDEX_SLOT)
    }

    fn int_sum<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let own = self.bits::<W>(i, slot) & if slot == 0 { self.head } else { u64::MAX };
        let next = self.bits::<W>(i, slot + 1) & when(slot + 1 < self.ring);
        own.wrapping_sub(next)
    }

    // Ranks do not rotate here: an odd slot belongs to an odd rank.
    fn int_scaled<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let (own, next) = (
            self.bits::<W>(i, slot),
            self.bits::<W>(i, slot + 1) & when(slot + 1 < self.ring),
        );
        match slot {
            0 => own.wrapping_sub(next << 1),
            _ if slot % 2 == 1 => own.wrapping_sub(next),
            _ => own.wrapping_sub(next) << 1,
        }
    }

    fn stairs<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let mark = |slot: u32| {
            let least = u64::from(self.window - 1)
                .wrapping_sub(slot.into())
                .wrapping_mul(STEP);
            least.wrapping_add(self.bits::<W>(i, slot) % STEP) & when(slot < self.window)
        };
        mark(slot) - (mark(slot + 1) & when(slot + 1 < self.ring))
    }

    fn int_product<const W: u32>(&self, i: u64, slot: u32) -> u64 {
        let own = self.bits::<W>(i, slot) | 1;
        let next = if slot + 1 < self.ring {
            self.bits::<W>(i, slot + 1) | 1
        } else {
            1
        };
        own.wrapping_mul(inverse(next))
    }

    /// Returns an element of a sum. `share` is the part of its contribution that a rank puts in;
    /// the library multiplies it by the inverse.
    fn float_sum<const W: u32, const M: u32>(&self, i: u64, slot: u32, share: f64) -> u64 {
        let mark = |slot| (self.bits::<W>(i, slot) >> (W - self.depth)) & when(slot < self.window);
        // The last bit of the result is always set, so it needs the whole significand and a zeroed
        // buffer is wrong everywhere.
        let own = mark(slot) | u64::from(slot == 0);
        let magnitude = own as i64 - mark(slot + 1) as i64;
        let shared = self.shared::<W>(i);
        let sign = i64::from(shared as i32 >> 31);
        let signed = (magnitude ^ sign) - sign;
        narrow::<W, M>(
            signed as f64 * f64::from(1u32 << (shared & 3)) * f64::from_bits(self.factor) * share,
        )
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
        let bits = if order < half {
            1 << (W - 1) | (half - 1 - order)
        } else {
            order - half
        };
        (bits + (1 << M)) ^ self.flip
    }

    /// Returns the position of an element among the `values` of its type (all 2^W if `None`), such
    /// that the greatest is in slot 0.
    ///
    /// Only the winner affects the result, so the lanes of a unit have their winners on different
    /// ranks: even a message of a few bytes then depends on as many ranks as possible.
    fn order<const W: u32>(&self, i: u64, slot: u32, values: Option<u64>) -> u64 {
        let below = |bound: u64, bits| ((u128::from(bound) * u128::from(bits)) >> W) as u64;
        let any = self.bits::<W>(i, 0);
        let winner = values.map_or(any, |values| below(values, any));
        let lane = (i % lanes(W)) as u32;
        let slot = if lane == 0 {
            slot
        } else {
            (slot + lane * self.spread) % self.ring
        };
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

    /// Returns the result of NCCL's steps: both inputs times 1/n, rounded, then their sum, rounded.
    fn mean<const W: u32, const M: u32>(&self, i: u64) -> u64 {
        let share = |slot| {
            narrow::<W, M>(widen::<W, M>(self.pair::<W, M>(i, slot)) * f64::from_bits(self.factor))
        };
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
