//! [`Spec`]: the properties of a collective.

use super::{
    buffers::{Layout, RankView},
    counts::{Counts, SizeRequest},
};

/// Everything about one collective that is not a library call.
pub struct Spec {
    /// nccl-tests' name, without `_perf`.
    pub name: &'static str,
    /// Whether it combines elements. The sweep then covers reduction operations.
    pub reduces: bool,
    /// Whether it is made of sends and receives. NCCL then uses one connection per peer, which
    /// `NCCL_P2P_PXN_LEVEL` reroutes, and no algorithm.
    pub pairwise: bool,
    /// Whether it has a root. The sweep then covers roots.
    pub rooted: bool,
    /// Whether ranks exchange different amounts. A case then carries its
    /// [`Traffic`](super::traffic::Traffic).
    pub uneven: bool,
    /// Whether the result can be checked in place. nccl-tests times but does not check alltoall,
    /// alltoallv and sendrecv in place.
    pub checked_in_place: bool,
    /// Whether the number of ranks must be a power of two.
    pub powers_of_two: bool,
    /// Elements sent, received and passed to the library.
    pub counts: fn(&SizeRequest) -> Counts,
    /// Elements that the algorithm bandwidth counts.
    pub algbw_elements: fn(&Counts, ranks: u64) -> u64,
    /// busbw divided by algbw on `ranks` ranks.
    pub bus_factor: fn(ranks: f64) -> f64,
    /// Steps that follow each other if it runs along a tree, or between all pairs at the same time:
    /// each takes a latency.
    pub steps: fn(ranks: f64) -> f64,
    /// What the buffers of one rank hold before and after.
    pub layout: fn(&RankView) -> Layout,
}

/// Returns (n-1)/n, the bus factor of collectives in which each rank keeps 1/n of the data to
/// itself.
pub(super) fn all_but_own_share(ranks: f64) -> f64 {
    (ranks - 1.0) / ranks
}

/// Returns the levels of a binary tree of `ranks` ranks, besides the root.
pub(super) fn tree_depth(ranks: f64) -> f64 {
    ranks.log2().ceil()
}
