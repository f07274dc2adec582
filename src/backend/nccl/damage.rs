//! What NCCL changed on a rank where it may change nothing, and what a deliberate fault changes.
//!
//! The guard zones are compared by the processor: they are small, and no kernel has to be compiled
//! for them. The send buffer is checked by the kernel that checks the receive buffer.

use super::rank_device::RankDevice;
use crate::collective::{
    BufferMode, Case, FaultTarget,
    data::{fault_in, first_wrong},
    guard::{BufferSide, CaseBuffer, Damage, GuardZone, ZONE},
};

impl RankDevice {
    /// Fills the guard zones of `case`, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn fill_zones(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let buffers = self.buffers()?;
        for zone in GuardZone::all(case, self.rank(), seed) {
            let at = buffers.position(&zone, case);
            self.device
                .write(buffers.of(zone.buffer), at, &zone.pattern())?;
        }
        Ok(())
    }

    /// Returns what has changed in the guard zones. The stream is empty.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn changed_zones(&self, case: &Case, seed: u64) -> anyhow::Result<Vec<Damage>> {
        let buffers = self.buffers()?;
        let mut bytes = vec![0; ZONE as usize];
        let mut found = Vec::new();
        for zone in GuardZone::all(case, self.rank(), seed) {
            let at = buffers.position(&zone, case);
            self.device.read(buffers.of(zone.buffer), at, &mut bytes)?;
            found.extend(zone.damage(&bytes));
        }
        Ok(found)
    }

    /// Counts the elements of the send buffer that have changed, in the stream's order.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn check_sent(&self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let layout = case.layout(self.rank());
        self.count(case, seed, CaseBuffer::Send, &layout.send)
    }

    /// Returns what has changed in the send buffer, after [`RankDevice::check_sent`]. The stream is
    /// empty.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn changed_sent(&self, case: &Case, seed: u64) -> anyhow::Result<Option<Damage>> {
        let changed = self.counted()?;
        if changed == 0 {
            return Ok(None);
        }
        let layout = case.layout(self.rank());
        let first = first_wrong(&layout.send, |region| {
            self.count(case, seed, CaseBuffer::Send, &[*region])?;
            self.wait(&|| {})?;
            self.counted()
        })?;
        let damage = Damage::of_send_buffer(self.rank(), changed, first.unwrap_or(0));
        Ok(Some(damage))
    }

    /// Flips one bit at `target`. Returns `false` if no such place is checked in `case`. The stream
    /// is empty.
    ///
    /// # Errors
    /// Returns an error if the GPU fails.
    pub(super) fn corrupt(&self, case: &Case, target: FaultTarget) -> anyhow::Result<bool> {
        let place = match target {
            FaultTarget::Data => self.last_checked(case)?,
            FaultTarget::Send => self.last_sent(case)?,
            FaultTarget::Beside(buffer, side) => self.byte_beside(case, buffer, side)?,
        };
        let Some((buffer, at, fault)) = place else {
            return Ok(false);
        };
        let buffer = self.buffers()?.of(buffer);
        let mut byte = [0];
        self.device.read(buffer, at, &mut byte)?;
        byte[0] ^= fault;
        self.device.write(buffer, at, &byte)?;
        Ok(true)
    }

    /// Returns where the last checked element is, and the bits that make it wrong; `None` if
    /// nothing is checked.
    fn last_checked(&self, case: &Case) -> anyhow::Result<Option<(CaseBuffer, u64, u8)>> {
        let layout = case.layout(self.rank());
        let Some(region) = layout.expected.iter().rev().find(|region| region.len > 0) else {
            return Ok(None);
        };
        let last = region.offset + region.len - 1;
        let at = self.buffers()?.start(case) + last * case.dtype.size();
        let fault = fault_in(&case.data(0), &region.content);
        Ok(Some((CaseBuffer::Receive, at, fault)))
    }

    /// Returns where the last element of the send buffer is, and a bit of it; `None` if there is
    /// none.
    fn last_sent(&self, case: &Case) -> anyhow::Result<Option<(CaseBuffer, u64, u8)>> {
        let sent = case.counts.send;
        if sent == 0 || case.buffer_mode == BufferMode::InPlace {
            return Ok(None);
        }
        let at = self.buffers()?.start(case) + (sent - 1) * case.dtype.size();
        Ok(Some((CaseBuffer::Send, at, 1)))
    }

    /// Returns where the byte of a guard zone beside `buffer` is, and a bit of it; `None` if there
    /// is no such zone.
    fn byte_beside(
        &self,
        case: &Case,
        buffer: CaseBuffer,
        side: BufferSide,
    ) -> anyhow::Result<Option<(CaseBuffer, u64, u8)>> {
        let zones = GuardZone::all(case, self.rank(), 0);
        let found = zones
            .iter()
            .find(|zone| (zone.buffer, zone.side) == (buffer, side));
        let Some(zone) = found else {
            return Ok(None);
        };
        let at = self.buffers()?.position(zone, case);
        let at = match side {
            BufferSide::Before => at + ZONE - 1,
            BufferSide::After => at,
        };
        Ok(Some((buffer, at, 1)))
    }
}
