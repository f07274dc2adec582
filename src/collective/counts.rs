//! [`Counts`]: the number of elements that a case moves.

use serde::{Deserialize, Serialize};

use super::traffic::Traffic;

/// The requested size of a case, before rounding.
#[derive(Clone, Copy, Debug)]
pub struct SizeRequest {
    /// Requested bytes divided by the element size.
    pub elements: u64,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Bytes per element.
    pub element_size: u64,
    /// How an uneven collective divides the elements between ranks.
    pub traffic: &'static Traffic,
}

/// The number of elements that a case moves, after rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counts {
    /// Elements in a rank's send buffer.
    pub send: u64,
    /// Elements in a rank's receive buffer.
    pub recv: u64,
    /// The count passed to the library: nccl-tests' column `count`.
    pub param: u64,
}

impl SizeRequest {
    /// Returns the elements per rank, rounded down to a multiple of 16 bytes as in nccl-tests since
    /// 2.13.12.
    pub(super) fn chunk(&self) -> u64 {
        (self.elements / self.ranks) & !(16 / self.element_size - 1)
    }

    /// Returns the counts of a collective whose buffers both hold all elements.
    pub(super) fn all_in_both(&self) -> Counts {
        Counts {
            send: self.elements,
            recv: self.elements,
            param: self.elements,
        }
    }

    /// Returns the counts of a collective that sends one chunk and receives one from each rank.
    pub(super) fn one_chunk_to_all(&self) -> Counts {
        let chunk = self.chunk();
        Counts {
            send: chunk,
            recv: chunk * self.ranks,
            param: chunk,
        }
    }

    /// Returns the counts of a collective that sends one chunk per rank and receives one.
    pub(super) fn all_to_one_chunk(&self) -> Counts {
        let chunk = self.chunk();
        Counts {
            send: chunk * self.ranks,
            recv: chunk,
            param: chunk,
        }
    }

    /// Returns the counts of a collective that sends and receives one chunk per rank.
    pub(super) fn a_chunk_per_rank_in_both(&self) -> Counts {
        let chunk = self.chunk();
        Counts {
            send: chunk * self.ranks,
            recv: chunk * self.ranks,
            param: chunk,
        }
    }
}
