//! Guard zones: bytes of a known pattern directly before and after what a case may use of its
//! buffers, and the [`Damage`] that a library does if it changes them or what it only may read.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{buffers::BufferMode, case::Case};
use crate::units::counted;

/// Bytes of a zone, a multiple of every element's size. A write past the end of a buffer begins
/// where the buffer ends, so that the length only matters for one that skips memory.
pub const ZONE: u64 = 16 << 10;

/// One of the two buffers of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CaseBuffer {
    Send,
    Receive,
}

impl CaseBuffer {
    /// Both.
    pub const ALL: [CaseBuffer; 2] = [CaseBuffer::Send, CaseBuffer::Receive];

    /// Returns the bytes that `case` uses of this buffer, from its start on every rank; `None` if
    /// it has no such buffer.
    pub fn used(self, case: &Case) -> Option<u64> {
        let counts = &case.counts;
        let elements = match (self, case.buffer_mode) {
            (CaseBuffer::Send, BufferMode::InPlace) => return None,
            (CaseBuffer::Send, BufferMode::OutOfPlace) => counts.send,
            (CaseBuffer::Receive, BufferMode::OutOfPlace) => counts.recv,
            (CaseBuffer::Receive, BufferMode::InPlace) => counts.send.max(counts.recv),
        };
        Some(elements * case.dtype.size())
    }
}

impl fmt::Display for CaseBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CaseBuffer::Send => "send buffer",
            CaseBuffer::Receive => "receive buffer",
        })
    }
}

/// The side of a buffer on which a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum BufferSide {
    Before,
    After,
}

impl BufferSide {
    /// Both.
    pub const ALL: [BufferSide; 2] = [BufferSide::Before, BufferSide::After];
}

impl fmt::Display for BufferSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BufferSide::Before => "before",
            BufferSide::After => "after",
        })
    }
}

/// A zone beside a buffer of a case on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardZone {
    /// The buffer.
    pub buffer: CaseBuffer,
    /// The side of the buffer.
    pub side: BufferSide,
    /// The first byte of the zone, from the start of the buffer.
    pub offset: i64,
    rank: u64,
    element: u64,
    /// What the pattern is computed from.
    key: u64,
}

impl GuardZone {
    /// Returns the zones of `case` on `rank`, whose patterns follow from `seed`.
    pub fn all(case: &Case, rank: u64, seed: u64) -> Vec<GuardZone> {
        let mut zones = Vec::with_capacity(4);
        for buffer in CaseBuffer::ALL {
            let Some(used) = buffer.used(case) else {
                continue;
            };
            for side in BufferSide::ALL {
                let which = 2 * buffer as u64 + side as u64;
                zones.push(GuardZone {
                    buffer,
                    side,
                    offset: match side {
                        BufferSide::Before => -(ZONE as i64),
                        BufferSide::After => used as i64,
                    },
                    rank,
                    element: case.dtype.size(),
                    key: mixed(mixed(seed) ^ (4 * rank + which)),
                });
            }
        }
        zones
    }

    /// Returns the position of the zone's first byte, if the buffer starts `start` bytes into its
    /// memory.
    pub fn position(&self, start: u64) -> u64 {
        start.wrapping_add_signed(self.offset)
    }

    /// Returns the bytes of the zone. No two zones, ranks or seeds have the same.
    ///
    /// Every float type has ordinary numbers of such bytes: a later operation at another offset may
    /// compute with them, and would be slower with subnormal ones.
    pub fn pattern(&self) -> Vec<u8> {
        let mut pattern = vec![0; ZONE as usize];
        let (words, _) = pattern.as_chunks_mut::<8>();
        // Marsaglia's xorshift, which does not leave 0.
        let mut random = self.key | 1;
        for word in words {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let ordinary = (random & 0x3f3f_3f3f_3f3f_3f3f) + 0x2020_2020_2020_2020;
            *word = ordinary.to_le_bytes();
        }
        pattern
    }

    /// Returns what has changed in the zone, which now has the bytes `found`.
    pub fn damage(&self, found: &[u8]) -> Option<Damage> {
        let pattern = self.pattern();
        if found == pattern {
            return None;
        }
        let mut damage = Damage {
            rank: self.rank,
            place: DamagedPlace::Zone {
                buffer: self.buffer,
                side: self.side,
            },
            elements: 0,
            bytes: 0,
            first: 0,
        };
        let element = self.element as usize;
        let elements = found.chunks(element).zip(pattern.chunks(element));
        for (at, (found, pattern)) in elements.enumerate() {
            let changed = (0..element).filter(|byte| found[*byte] != pattern[*byte]);
            let Some(first) = changed.clone().min() else {
                continue;
            };
            if damage.elements == 0 {
                damage.first = match self.side {
                    BufferSide::Before => -(ZONE as i64),
                    BufferSide::After => 0,
                } + (at * element + first) as i64;
            }
            damage.elements += 1;
            damage.bytes += changed.count() as u64;
        }
        Some(damage)
    }
}

/// Returns a number each bit of which depends on every bit of `x`.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A place where a library may change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DamagedPlace {
    /// The send buffer of a case that has a receive buffer too.
    SendBuffer,
    /// A guard zone.
    Zone {
        /// The buffer beside which it is.
        buffer: CaseBuffer,
        /// The side of the buffer.
        side: BufferSide,
    },
}

/// What a rank found changed where the library may change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The rank.
    pub rank: u64,
    /// What was changed.
    pub place: DamagedPlace,
    /// Changed elements.
    pub elements: u64,
    /// Changed bytes; for a send buffer 0, because only elements are counted.
    pub bytes: u64,
    /// The first one: an element of the send buffer, or a byte from the start of the buffer on,
    /// before it, or from its end on, after it.
    pub first: i64,
}

impl Damage {
    /// Returns the damage of a send buffer in which `elements` elements differ from what was sent,
    /// the first of them at `first`.
    pub fn of_send_buffer(rank: u64, elements: u64, first: u64) -> Damage {
        Damage {
            rank,
            place: DamagedPlace::SendBuffer,
            elements,
            bytes: 0,
            first: first as i64,
        }
    }
}

impl fmt::Display for Damage {
    /// Writes a finding as notes have it:
    /// `rank 1: 3 bytes after the receive buffer changed, the first at +0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { rank, first, .. } = self;
        match self.place {
            DamagedPlace::SendBuffer => write!(
                f,
                "rank {rank}: {} of the send buffer changed, the first at {first}",
                counted(self.elements, "element")
            ),
            DamagedPlace::Zone { buffer, side } => write!(
                f,
                "rank {rank}: {} {side} the {buffer} changed, the first at {first:+}",
                counted(self.bytes, "byte")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{CaseShape, Collective, data::DType},
        units::Bytes,
    };

    fn case(collective: Collective, buffer_mode: BufferMode) -> Case {
        CaseShape {
            collective,
            dtype: DType::Half,
            redop: None,
            root: Some(0),
            buffer_mode,
            ranks: 4,
        }
        .nearest(Bytes(4096))
    }

    fn offsets(case: &Case) -> Vec<(CaseBuffer, i64)> {
        let zones = GuardZone::all(case, 0, 1);
        zones
            .iter()
            .map(|zone| (zone.buffer, zone.offset))
            .collect()
    }

    #[test]
    fn zones_lie_where_the_case_ends_not_the_allocation() {
        use CaseBuffer::{Receive, Send};
        let before = -(ZONE as i64);
        let gather = case(Collective::Gather, BufferMode::OutOfPlace);
        assert_eq!(
            offsets(&gather),
            [
                (Send, before),
                (Send, 1024),
                (Receive, before),
                (Receive, 4096)
            ]
        );
        let scatter = case(Collective::Scatter, BufferMode::OutOfPlace);
        assert_eq!(
            offsets(&scatter),
            [
                (Send, before),
                (Send, 4096),
                (Receive, before),
                (Receive, 1024)
            ]
        );
        let in_place = case(Collective::Scatter, BufferMode::InPlace);
        assert_eq!(offsets(&in_place), [(Receive, before), (Receive, 4096)]);
    }

    #[test]
    fn patterns_differ_by_zone_rank_and_seed_and_are_ordinary_floats() {
        let case = case(Collective::AllReduce, BufferMode::OutOfPlace);
        let mut patterns = Vec::new();
        for (rank, seed) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
            let zones = GuardZone::all(&case, rank, seed);
            patterns.extend(zones.iter().map(GuardZone::pattern));
        }
        for (at, pattern) in patterns.iter().enumerate() {
            assert_eq!(pattern.len() as u64, ZONE);
            for other in &patterns[..at] {
                assert_ne!(pattern, other);
            }
            let (floats, _) = pattern.as_chunks::<4>();
            assert!(
                floats
                    .iter()
                    .all(|bytes| f32::from_le_bytes(*bytes).is_normal())
            );
            let (halves, _) = pattern.as_chunks::<2>();
            assert!(
                halves
                    .iter()
                    .all(|bytes| half::f16::from_le_bytes(*bytes).is_normal())
            );
        }
    }

    fn damaged(zone: &GuardZone, bytes: &[usize]) -> Option<Damage> {
        let mut found = zone.pattern();
        for byte in bytes {
            found[*byte] ^= 0x80;
        }
        zone.damage(&found)
    }

    #[test]
    fn damage_says_how_much_and_where() {
        let case = case(Collective::AllReduce, BufferMode::OutOfPlace);
        let zones = GuardZone::all(&case, 3, 7);
        assert!(zones.iter().all(|zone| damaged(zone, &[]).is_none()));
        let last = ZONE as usize - 1;
        let before = damaged(&zones[2], &[last]).expect("damage");
        assert_eq!(
            before.to_string(),
            "rank 3: 1 byte before the receive buffer changed, the first at -1"
        );
        let after = damaged(&zones[1], &[0, 1, 6]).expect("damage");
        assert_eq!((after.elements, after.bytes), (2, 3), "elements of 2 bytes");
        assert_eq!(
            after.to_string(),
            "rank 3: 3 bytes after the send buffer changed, the first at +0"
        );
        assert_eq!(
            Damage::of_send_buffer(0, 12, 5).to_string(),
            "rank 0: 12 elements of the send buffer changed, the first at 5"
        );
    }
}
