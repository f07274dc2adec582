//! [`CopyBuffers`]: the memory that the copies of a step read and write.

use std::{collections::TryReserveError, hint::black_box, ops::Range};

use crate::{units::Bytes, workload::MemoryCopies};

/// The most bytes that are copied at a time: MPI has its turn after some microseconds, however long
/// a copy is.
const SLICE: u64 = 32 << 10;

/// Two buffers, the first of which is copied to the second.
pub(super) struct CopyBuffers {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl CopyBuffers {
    /// Allocates both.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn allocate(bytes: Bytes) -> Result<CopyBuffers, TryReserveError> {
        Ok(CopyBuffers {
            from: filled(bytes, 1)?,
            to: filled(bytes, 2)?,
        })
    }

    fn copy(&mut self, part: Range<u64>) {
        let part = part.start as usize..part.end as usize;
        let to = &mut self.to[part.clone()];
        to.copy_from_slice(&self.from[part]);
        black_box(to);
    }
}

/// Returns a buffer whose bytes were all written: reading others would be too fast, since they have
/// one page of the system.
fn filled(bytes: Bytes, value: u8) -> Result<Vec<u8>, TryReserveError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes.0 as usize)?;
    buffer.resize(bytes.0 as usize, value);
    Ok(buffer)
}

/// Copies of an operation while it runs.
pub(super) struct RunningCopies {
    copies: MemoryCopies,
    /// The copy that runs.
    number: u32,
    /// The bytes of all copies that are done.
    done: u64,
}

impl RunningCopies {
    /// Returns copies of which none is done.
    pub(super) fn new(copies: MemoryCopies) -> RunningCopies {
        RunningCopies {
            copies,
            number: 0,
            done: 0,
        }
    }

    /// Copies for a while: a piece, or a part of one that is long. Returns whether all is done.
    pub(super) fn go_on(&mut self, buffers: &mut CopyBuffers) -> bool {
        let piece = self.copies.piece(self.number);
        let end = piece.end.min(self.done + SLICE);
        buffers.copy(self.done..end);
        self.done = end;
        if end == piece.end {
            self.number += 1;
        }
        self.number == self.copies.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_piece_by_piece_and_none_beyond() {
        for (bytes, pieces, turns) in [(1000, 1, 1), (1000, 8, 8), (2 * SLICE + 1, 1, 3)] {
            let mut buffers = CopyBuffers::allocate(Bytes(bytes + 16)).expect("memory");
            let copies = MemoryCopies {
                bytes: Bytes(bytes),
                pieces,
            };
            let mut running = RunningCopies::new(copies);
            let mut needed = 1;
            while !running.go_on(&mut buffers) {
                needed += 1;
            }
            assert_eq!(needed, turns);
            let (copied, rest) = buffers.to.split_at(bytes as usize);
            assert!(copied.iter().all(|byte| *byte == 1), "{bytes} in {pieces}");
            assert!(rest.iter().all(|byte| *byte == 2), "{bytes} in {pieces}");
        }
    }
}
