//! [`CopyBuffers`]: the memory that the copies of a step read and write.

use super::super::device::{Buffer, Device};
use crate::{units::Bytes, workload::MemoryCopies};

/// Two buffers of a GPU, the first of which is copied to the second.
pub(super) struct CopyBuffers {
    from: Buffer,
    to: Buffer,
}

impl CopyBuffers {
    /// Allocates both on the GPU of `device`.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn allocate(device: &Device, bytes: Bytes) -> anyhow::Result<CopyBuffers> {
        Ok(CopyBuffers {
            from: device.allocate(bytes, None)?,
            to: device.allocate(bytes, None)?,
        })
    }

    /// Puts all of `copies` into the stream of `device`.
    ///
    /// # Errors
    /// Returns an error if the driver fails, or if they are longer than the buffers.
    pub(super) fn copy(&self, device: &Device, copies: &MemoryCopies) -> anyhow::Result<()> {
        for number in 0..copies.pieces {
            device.copy(&self.from, &self.to, copies.piece(number))?;
        }
        Ok(())
    }

    /// Frees both. No stream may use them anymore.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn free(self, device: &Device) -> anyhow::Result<()> {
        device.free(self.from)?;
        device.free(self.to)
    }
}
