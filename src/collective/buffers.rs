//! [`Layout`]: the buffers of one rank in one case. [`RankView`] is what it is computed from.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    counts::Counts,
    data::{Content, Region},
    traffic::TrafficShares,
};

/// Two buffers, or one that is both sent from and received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum BufferMode {
    OutOfPlace,
    InPlace,
}

impl BufferMode {
    /// Both, in the order in which they are measured.
    pub const ALL: [BufferMode; 2] = [BufferMode::OutOfPlace, BufferMode::InPlace];
}

impl fmt::Display for BufferMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BufferMode::OutOfPlace => "out of place",
            BufferMode::InPlace => "in place",
        })
    }
}

/// A case as one rank sees it: everything that its buffers depend on.
#[derive(Clone, Copy, Debug)]
pub struct RankView {
    /// Counts of the case.
    pub counts: Counts,
    /// This rank.
    pub rank: u64,
    /// Number of ranks.
    pub ranks: u64,
    /// The root; 0 if the collective has none.
    pub root: u64,
    /// One buffer or two.
    pub buffer_mode: BufferMode,
    /// The amounts that ranks exchange, if they are not the same for all; else `None`.
    pub shares: Option<TrafficShares<'static>>,
}

/// The buffers of one rank in one case. Offsets count elements.
///
/// In place there is one buffer, the receive buffer, and the send pointer is `send_offset` into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Contents of the send buffer before the operation; empty in place.
    pub send: Vec<Region>,
    /// Contents of the receive buffer before the operation.
    pub recv: Vec<Region>,
    /// Required contents of the receive buffer after the operation; empty if nothing is checked.
    pub expected: Vec<Region>,
    /// In place, the start of this rank's input in the receive buffer.
    pub send_offset: u64,
    /// Start of this rank's result in the receive buffer.
    pub recv_offset: u64,
}

impl RankView {
    pub(super) fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// Returns elements `first..first + len` of this rank's own input.
    pub(super) fn own_input(&self, first: u64, len: u64) -> Content {
        Content::input(self.rank, first, len)
    }

    /// Returns the layout of two separate buffers, with the receive buffer untouched before.
    pub(super) fn out_of_place(&self, send: Vec<Region>, expected: Vec<Region>) -> Layout {
        Layout {
            send,
            recv: stretch(self.counts.recv, Content::Sentinel),
            expected,
            send_offset: 0,
            recv_offset: 0,
        }
    }

    /// Returns the layout of one buffer.
    pub(super) fn in_place(&self, before: Vec<Region>, expected: Vec<Region>) -> Layout {
        Layout {
            send: Vec::new(),
            recv: before,
            expected,
            send_offset: 0,
            recv_offset: 0,
        }
    }

    /// Returns a buffer of one chunk per rank: this rank's chunk holds `own`, the others
    /// `rest(offset, len)`.
    pub(super) fn own_chunk_and_rest(
        &self,
        own: Content,
        rest: impl Fn(u64, u64) -> Content,
    ) -> Vec<Region> {
        let chunk = self.counts.param;
        let own_start = self.rank * chunk;
        let own_end = own_start + chunk;
        let tail = self.ranks * chunk - own_end;
        let mut regions = vec![
            Region {
                offset: 0,
                len: own_start,
                content: rest(0, own_start),
            },
            Region {
                offset: own_start,
                len: chunk,
                content: own,
            },
            Region {
                offset: own_end,
                len: tail,
                content: rest(own_end, tail),
            },
        ];
        regions.retain(|region| region.len > 0);
        regions
    }

    /// Returns a buffer of one chunk per rank that holds nothing but this rank's chunk of `own`.
    pub(super) fn own_chunk_alone(&self, own: Content) -> Vec<Region> {
        self.own_chunk_and_rest(own, |_, _| Content::Sentinel)
    }
}

/// Returns one region from offset 0, or none if there are no elements.
pub(super) fn stretch(len: u64, content: Content) -> Vec<Region> {
    if len == 0 {
        return Vec::new();
    }
    vec![Region {
        offset: 0,
        len,
        content,
    }]
}
