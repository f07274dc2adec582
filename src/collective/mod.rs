//! What a collective is: counts, bandwidth factors, what each buffer holds before and must hold after. No library is
//! called in here.
//!
//! One file a collective, each a [`Spec`]. Sizes, roundings and formulas are nccl-tests' (version 2.19.6), so that
//! numbers compare. [`Case`] is one cell of a sweep; [`data`] has the values.

mod all_gather;
mod all_reduce;
mod alltoall;
mod alltoallv;
mod broadcast;
pub mod case;
pub mod data;
mod gather;
pub mod hypercube;
mod reduce;
mod reduce_scatter;
mod scatter;
mod sendrecv;
pub mod traffic;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use case::{BufferMode, Case};
use data::{Content, Region};
use traffic::{Traffic, TrafficShares};

/// A collective the tool can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it; each file says what it does")]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    #[serde(rename = "alltoall")]
    AllToAll,
    Gather,
    Scatter,
    #[serde(rename = "sendrecv")]
    SendRecv,
    #[serde(rename = "hypercube")]
    HyperCube,
    #[serde(rename = "alltoallv")]
    AllToAllV,
}

/// Everything about one collective that is not a library call.
pub struct Spec {
    /// nccl-tests' name, without `_perf`.
    pub name: &'static str,
    /// Does it combine elements? Then the sweep goes over operations.
    pub reduces: bool,
    /// Is it made of sends and receives? Then NCCL uses a connection a peer, which `NCCL_P2P_PXN_LEVEL` moves, and no algorithm.
    pub pairwise: bool,
    /// Does it have a root? Then the sweep goes over roots.
    pub rooted: bool,
    /// Can the result be checked in place? nccl-tests times but does not check alltoall, alltoallv
    /// and sendrecv in place.
    pub checked_in_place: bool,
    /// Does it need a power of two of ranks?
    pub powers_of_two: bool,
    /// Elements sent, received and handed to the library.
    pub counts: fn(&SizeRequest) -> Counts,
    /// Elements that the algorithm bandwidth counts.
    pub algbw_elements: fn(&Counts, ranks: u64) -> u64,
    /// busbw divided by algbw on `ranks` ranks.
    pub bus_factor: fn(ranks: f64) -> f64,
    /// What the buffers of one rank hold before and after.
    pub layout: fn(&RankView) -> Layout,
}

/// What was asked for, before rounding.
#[derive(Clone, Copy, Debug)]
pub struct SizeRequest {
    /// Bytes asked for, divided by the element size.
    pub elements: u64,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Bytes an element takes.
    pub element_size: u64,
    /// How an alltoallv shares it out.
    pub traffic: &'static Traffic,
}

impl SizeRequest {
    /// Elements for each rank, rounded down to a multiple of 16 bytes as nccl-tests does since 2.13.12.
    fn per_rank(&self) -> u64 {
        (self.elements / self.ranks) & !(16 / self.element_size - 1)
    }
}

/// How many elements a case moves, after rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counts {
    /// Elements in a rank's send buffer.
    pub send: u64,
    /// Elements in a rank's receive buffer.
    pub recv: u64,
    /// The count handed to the library: nccl-tests' column `count`.
    pub param: u64,
}

/// One rank's place in a case: what its buffers depend on.
#[derive(Clone, Copy, Debug)]
pub struct RankView {
    /// The case's counts.
    pub counts: Counts,
    /// This rank.
    pub rank: u64,
    /// All ranks.
    pub ranks: u64,
    /// The root; 0 where the collective has none.
    pub root: u64,
    /// One buffer or two.
    pub buffer_mode: BufferMode,
    /// Who sends how much to whom in an alltoallv.
    pub shares: TrafficShares<'static>,
}

/// The buffers of one rank in one case. Offsets count elements.
///
/// In place there is one buffer, the receive buffer, and the send pointer lies `send_offset` into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What the send buffer holds before; empty in place.
    pub send: Vec<Region>,
    /// What the receive buffer holds before.
    pub recv: Vec<Region>,
    /// What the receive buffer must hold after; empty where nothing is checked.
    pub expected: Vec<Region>,
    /// In place: where this rank's input begins in the receive buffer.
    pub send_offset: u64,
    /// Where this rank's result begins in the receive buffer.
    pub recv_offset: u64,
}

impl RankView {
    fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// This rank's own input: elements `first..first + len`.
    fn own_input(&self, first: u64, len: u64) -> Content {
        Content::Input {
            rank: self.rank,
            chunk: len.max(1),
            first,
        }
    }

    /// The layout of two separate buffers, the receive buffer untouched before.
    fn out_of_place(&self, send: Vec<Region>, expected: Vec<Region>) -> Layout {
        let recv = stretch(self.counts.recv, Content::Sentinel);
        Layout {
            send,
            recv,
            expected,
            send_offset: 0,
            recv_offset: 0,
        }
    }

    /// A layout of one buffer.
    fn in_place(&self, before: Vec<Region>, expected: Vec<Region>) -> Layout {
        Layout {
            send: Vec::new(),
            recv: before,
            expected,
            send_offset: 0,
            recv_offset: 0,
        }
    }

    /// One buffer of a chunk for each rank: this rank's chunk holds `own`, the others `rest(offset, len)`.
    fn own_chunk_and_rest(&self, own: Content, rest: impl Fn(u64, u64) -> Content) -> Vec<Region> {
        let (chunk, mine) = (self.counts.param, self.rank * self.counts.param);
        let after = mine + chunk;
        let tail = self.ranks * chunk - after;
        [
            Region {
                offset: 0,
                len: mine,
                content: rest(0, mine),
            },
            Region {
                offset: mine,
                len: chunk,
                content: own,
            },
            Region {
                offset: after,
                len: tail,
                content: rest(after, tail),
            },
        ]
        .into_iter()
        .filter(|region| region.len > 0)
        .collect()
    }
}

/// One region from offset 0, or none where there are no elements.
fn stretch(len: u64, content: Content) -> Vec<Region> {
    if len == 0 {
        Vec::new()
    } else {
        vec![Region {
            offset: 0,
            len,
            content,
        }]
    }
}

/// The bus factor of collectives in which each rank keeps 1/n of the data to itself: (n-1)/n.
fn all_but_own_share(ranks: f64) -> f64 {
    (ranks - 1.0) / ranks
}

impl Collective {
    /// All collectives, in the order of `pxnbench all`.
    pub const ALL: [Collective; 11] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllToAll,
        Collective::Gather,
        Collective::Scatter,
        Collective::SendRecv,
        Collective::HyperCube,
        Collective::AllToAllV,
    ];

    /// What this collective is.
    pub fn spec(self) -> &'static Spec {
        match self {
            Collective::AllReduce => &all_reduce::SPEC,
            Collective::AllGather => &all_gather::SPEC,
            Collective::ReduceScatter => &reduce_scatter::SPEC,
            Collective::Broadcast => &broadcast::SPEC,
            Collective::Reduce => &reduce::SPEC,
            Collective::AllToAll => &alltoall::SPEC,
            Collective::Gather => &gather::SPEC,
            Collective::Scatter => &scatter::SPEC,
            Collective::SendRecv => &sendrecv::SPEC,
            Collective::HyperCube => &hypercube::SPEC,
            Collective::AllToAllV => &alltoallv::SPEC,
        }
    }

    /// nccl-tests' name, without `_perf`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Collective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Collective::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|c| c.name() == text)
            .ok_or_else(|| format!("unknown collective; there are {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// serde tells of a word that it does not know which ones it knows: all variants.
    #[test]
    fn all_has_every_variant() {
        let error = serde_json::from_str::<Collective>("\"none\"")
            .expect_err("an error")
            .to_string();
        let known: Vec<&str> = error
            .split("expected one of")
            .nth(1)
            .expect("a list")
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert_eq!(known, Collective::ALL.map(Collective::name), "{error}");
    }
}
