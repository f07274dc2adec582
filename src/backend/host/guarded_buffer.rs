//! [`GuardedBuffer`]: a buffer in host memory with room for a guard zone on each side.

#![expect(unsafe_code, reason = "words are accessed as bytes")]

use crate::{
    collective::{
        data::Region,
        guard::{GuardZone, ZONE},
    },
    exit::{Code, Failure},
    units::Bytes,
};

/// A buffer in host memory with a guard zone's room before and after it. It consists of 64-bit
/// words, so that every element type is aligned.
#[derive(Default)]
pub(super) struct GuardedBuffer(Vec<u64>);

impl GuardedBuffer {
    /// Gives the buffer room for `size`, if it has less.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn resize(&mut self, size: Bytes) -> anyhow::Result<()> {
        let words = (size.0 + 2 * ZONE).div_ceil(8) as usize;
        let more = words.saturating_sub(self.0.len());
        self.0.try_reserve_exact(more).map_err(|_| {
            let what = format!(
                "host memory does not have another buffer of {size} for this rank. Lower -e"
            );
            Failure::on_this_rank(Code::Usage, what)
        })?;
        self.0.resize(words.max(self.0.len()), 0);
        Ok(())
    }

    /// Returns the address of the first element.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast::<u8>().wrapping_add(ZONE as usize)
    }

    /// Returns the bytes of `region`, whose elements have `size` bytes.
    pub(super) fn part(&mut self, region: &Region, size: u64) -> &mut [u8] {
        self.stretch(ZONE + region.offset * size, region.len * size)
    }

    /// Returns the first `length` bytes of the elements.
    pub(super) fn first(&mut self, length: usize) -> &mut [u8] {
        self.stretch(ZONE, length as u64)
    }

    /// Returns the bytes of `zone`, which is beside this buffer.
    pub(super) fn zone(&mut self, zone: &GuardZone) -> &mut [u8] {
        self.stretch(zone.position(ZONE), ZONE)
    }

    /// Returns `length` bytes from `begin` on, counted from the start of the room before the
    /// buffer.
    fn stretch(&mut self, begin: u64, length: u64) -> &mut [u8] {
        let words = &mut self.0[..];
        // SAFETY: every u64 is eight valid bytes, and bytes need no alignment.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words))
        };
        &mut bytes[begin as usize..(begin + length) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::data::Content;

    #[test]
    fn elements_lie_between_the_zones_at_the_alignment_of_the_allocation() {
        let mut buffer = GuardedBuffer::default();
        buffer.resize(Bytes(1 << 20)).expect("memory");
        let begin = buffer.0.as_ptr() as usize;
        assert_eq!(buffer.start() as usize - begin, ZONE as usize);
        assert_eq!(ZONE % 4096, 0, "a page, so that offsets in pages stay");
        let region = Region {
            offset: 3,
            len: 5,
            content: Content::Sentinel,
        };
        buffer.part(&region, 8).fill(7);
        assert_eq!(buffer.first(64)[..24], [0; 24]);
        assert_eq!(buffer.first(64)[24..], [7; 40]);
    }
}
