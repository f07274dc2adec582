//! [`Buffers`]: the send and the receive buffer of a rank, with room for guard zones around them.

#![expect(unsafe_code, reason = "handles of NCCL are raw pointers")]

use std::sync::Arc;

use anyhow::Context;

use super::device::{Buffer, Device};
use crate::{
    collective::{
        Case,
        data::Region,
        guard::{CaseBuffer, GuardZone, ZONE},
    },
    native::nccl::{Nccl, RawHandle},
    units::Bytes,
};

/// Bytes before the data. The driver and NCCL map memory in pages of this size: the data keep the
/// alignment of the allocation.
const FRONT: u64 = 2 << 20;

/// Bytes that a buffer has beside its data.
pub(super) const BESIDE: u64 = FRONT + ZONE;

/// Size in bytes of the largest element type.
const LARGEST_ELEMENT: u64 = 8;

/// The two buffers of a rank.
pub(super) struct Buffers {
    pub(super) send: Buffer,
    pub(super) recv: Buffer,
    /// The largest message that they hold; unaligned buffers are longer.
    pub(super) largest: Bytes,
    /// Elements between an aligned address and the start of the data.
    unalign: u64,
    /// NCCL's handles for them, if they are registered.
    pub(super) handles: Vec<RawHandle>,
}

// SAFETY: a handle is NCCL's reference to a buffer; any one thread may return it.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Allocates both on `device` for messages of up to `largest` bytes that start `unalign`
    /// elements behind an aligned address.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn allocate(
        device: &Device,
        nccl: &Arc<Nccl>,
        largest: Bytes,
        unalign: u64,
    ) -> anyhow::Result<Buffers> {
        let bytes = Bytes(BESIDE + largest.0 + unalign * LARGEST_ELEMENT);
        Ok(Buffers {
            send: device.allocate(bytes, Some(Arc::clone(nccl)))?,
            recv: device.allocate(bytes, Some(Arc::clone(nccl)))?,
            largest,
            unalign,
            handles: Vec::new(),
        })
    }

    /// Returns one of the two.
    pub(super) fn of(&self, buffer: CaseBuffer) -> &Buffer {
        match buffer {
            CaseBuffer::Send => &self.send,
            CaseBuffer::Receive => &self.recv,
        }
    }

    /// Returns the position of the first element of `case` in both.
    pub(super) fn start(&self, case: &Case) -> u64 {
        FRONT + self.unalign * case.dtype.size()
    }

    /// Returns the address to pass to a kernel together with `region` of `case`; the kernel adds
    /// the region's offset.
    ///
    /// # Errors
    /// Returns an error if the region is not in the buffer.
    pub(super) fn address_for(
        &self,
        buffer: CaseBuffer,
        region: &Region,
        case: &Case,
    ) -> anyhow::Result<u64> {
        let element = case.dtype.size();
        let (buffer, start) = (self.of(buffer), self.start(case));
        // The kernel does not check that the region lies in the buffer.
        buffer
            .part(start + region.offset * element, region.len * element)
            .with_context(|| case.to_string())?;
        Ok(buffer.address() + start)
    }

    /// Returns the position of a guard zone of `case` in its buffer.
    pub(super) fn position(&self, zone: &GuardZone, case: &Case) -> u64 {
        zone.position(self.start(case))
    }
}
