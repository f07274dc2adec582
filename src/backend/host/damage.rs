//! What MPI changed where it may change nothing, and what a deliberate fault changes.

use super::{
    backend::Host,
    guarded_buffer::GuardedBuffer,
    reduction::{self, factor},
};
use crate::{
    collective::{
        BufferMode, Case,
        data::{self, Region, first_wrong, split},
        guard::{BufferSide, CaseBuffer, Damage, GuardZone},
    },
    world::progress,
};

/// Elements that are multiplied at a time to compare them.
const PIECE: u64 = 4096;

impl Host {
    /// Fills the guard zones of `case`.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn fill_zones(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        if factor(case, self.rank).is_some() {
            self.scaled.resize(case.size())?;
        }
        for zone in self.zones(case, seed) {
            let buffer = self.buffer_of_call(case, zone.buffer);
            buffer.zone(&zone).copy_from_slice(&zone.pattern());
        }
        Ok(())
    }

    /// Returns what has changed in the guard zones and in what MPI sent from.
    pub(super) fn find_damage(&mut self, case: &Case, seed: u64) -> Vec<Damage> {
        let mut found = Vec::new();
        for zone in self.zones(case, seed) {
            let buffer = self.buffer_of_call(case, zone.buffer);
            found.extend(zone.damage(buffer.zone(&zone)));
        }
        let sent = match factor(case, self.rank) {
            Some(factor) => self.changed_scaled(case, seed, factor),
            None => self.changed_sent(case, seed),
        };
        found.extend(sent);
        found
    }

    /// Returns the zones beside the buffers that MPI is given in `case`.
    fn zones(&self, case: &Case, seed: u64) -> Vec<GuardZone> {
        let mut zones = GuardZone::all(case, self.rank, seed);
        if case.buffer_mode == BufferMode::InPlace && factor(case, self.rank).is_some() {
            let out_of_place = Case {
                buffer_mode: BufferMode::OutOfPlace,
                ..*case
            };
            let others = GuardZone::all(&out_of_place, self.rank, seed);
            zones.extend(others.iter().filter(|zone| zone.buffer == CaseBuffer::Send));
        }
        zones
    }

    /// Returns the buffer that MPI is given in `case` as the one to send from or to receive into.
    fn buffer_of_call(&mut self, case: &Case, buffer: CaseBuffer) -> &mut GuardedBuffer {
        match buffer {
            CaseBuffer::Receive => &mut self.recv,
            CaseBuffer::Send if factor(case, self.rank).is_some() => &mut self.scaled,
            CaseBuffer::Send => &mut self.send,
        }
    }

    /// Returns the first byte of the last checked element, and the bits that make it wrong; `None`
    /// if nothing is checked.
    pub(super) fn last_checked(&mut self, case: &Case) -> Option<(&mut u8, u8)> {
        let layout = self.layout(case);
        let region = layout.expected.iter().rev().find(|region| region.len > 0)?;
        let size = case.dtype.size();
        let last = ((region.len - 1) * size) as usize;
        let fault = data::fault_in(&case.data(0), &region.content);
        Some((&mut self.recv.part(region, size)[last], fault))
    }

    /// Returns the first byte of the last element that MPI may only read, and a bit of it; `None`
    /// if there is none.
    pub(super) fn last_sent(&mut self, case: &Case) -> Option<(&mut u8, u8)> {
        let sent = case.counts.send * case.dtype.size();
        let is_separate =
            case.buffer_mode == BufferMode::OutOfPlace || factor(case, self.rank).is_some();
        if sent == 0 || !is_separate {
            return None;
        }
        let last = (sent - case.dtype.size()) as usize;
        let buffer = self.buffer_of_call(case, CaseBuffer::Send);
        Some((&mut buffer.first(sent as usize)[last], 1))
    }

    /// Returns the byte of a guard zone that is beside `buffer`, and a bit of it; `None` if there
    /// is no such zone.
    pub(super) fn byte_beside(
        &mut self,
        case: &Case,
        buffer: CaseBuffer,
        side: BufferSide,
    ) -> Option<(&mut u8, u8)> {
        let zones = self.zones(case, 0);
        let zone = zones
            .iter()
            .find(|zone| (zone.buffer, zone.side) == (buffer, side))?;
        let bytes = self.buffer_of_call(case, buffer).zone(zone);
        let byte = match side {
            BufferSide::Before => bytes.last_mut(),
            BufferSide::After => bytes.first_mut(),
        };
        Some((byte?, 1))
    }

    /// Returns what has changed in the send buffer.
    fn changed_sent(&mut self, case: &Case, seed: u64) -> Option<Damage> {
        let layout = self.layout(case);
        let key = case.data(seed);
        let size = key.dtype.size();
        let mut count = |region: &Region| {
            let bytes = self.send.part(region, size);
            data::count_wrong_noting(&key, &region.content, bytes, &progress::tick)
        };
        let changed: u64 = layout.send.iter().map(&mut count).sum();
        if changed == 0 {
            return None;
        }
        let first = first_wrong(&layout.send, |region| Ok(count(region)));
        let first = first.ok().flatten().unwrap_or(0);
        Some(Damage::of_send_buffer(self.rank, changed, first))
    }

    /// Returns what has changed in the input that was multiplied by `factor` before MPI got it.
    fn changed_scaled(&mut self, case: &Case, seed: u64, factor: f64) -> Option<Damage> {
        let layout = self.layout(case);
        let inputs = match case.buffer_mode {
            BufferMode::OutOfPlace => layout.send,
            BufferMode::InPlace => layout.recv,
        };
        let key = case.data(seed);
        let size = key.dtype.size();
        let (mut changed, mut first) = (0, None);
        for mut rest in inputs {
            while rest.len > 0 {
                let (piece, behind) = match rest.len {
                    ..=PIECE => (rest, Region { len: 0, ..rest }),
                    _ => split(&rest, PIECE),
                };
                let bytes = (piece.len * size) as usize;
                let (mut input, mut scaled) = (vec![0; bytes], vec![0; bytes]);
                data::write_noting(&key, &piece.content, &mut input, &progress::tick);
                reduction::scale(key.dtype, factor, &input, &mut scaled);
                let sent = self.scaled.part(&piece, size);
                let elements = sent.chunks(size as usize).zip(scaled.chunks(size as usize));
                for (at, _) in (piece.offset..).zip(elements).filter(|(_, (a, b))| a != b) {
                    first.get_or_insert(at);
                    changed += 1;
                }
                rest = behind;
            }
        }
        first.map(|first| Damage::of_send_buffer(self.rank, changed, first))
    }
}
