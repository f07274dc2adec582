//! hypercube: every rank receives the inputs of all ranks, as in all_gather, by exchanges that
//! double in size: in round k with the rank whose number differs in bit k.

use super::{
    all_gather,
    spec::{Spec, tree_depth},
};

pub(super) const SPEC: Spec = Spec {
    name: "hypercube",
    reduces: false,
    pairwise: true,
    rooted: false,
    uneven: false,
    checked_in_place: true,
    powers_of_two: true,
    counts: all_gather::SPEC.counts,
    // What a rank sends over all rounds: one chunk, two, four, up to half of all.
    algbw_elements: |counts, ranks| counts.param * (ranks - 1),
    bus_factor: |_| 1.0,
    steps: tree_depth,
    layout: all_gather::SPEC.layout,
};

/// One exchange of one rank. Offsets and lengths count chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The rank at the other end.
    pub peer: u64,
    /// Start of what it sends: everything that it has so far.
    pub from: u64,
    /// Start of what it receives.
    pub to: u64,
    /// Chunks sent, and the same number received.
    pub chunks: u64,
}

/// Returns the rounds of `rank` among `ranks`, a power of two. Before the first round its own chunk
/// is in place.
pub fn rounds(rank: u64, ranks: u64) -> impl Iterator<Item = Round> {
    (0..ranks.ilog2()).map(move |bit| {
        let chunks = 1 << bit;
        let from = rank & !(chunks - 1);
        Round {
            peer: rank ^ chunks,
            from,
            to: from ^ chunks,
            chunks,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exchange_is_one_for_both_sides_and_all_is_there_after_the_last() {
        for ranks in [1_u64, 2, 4, 8, 64] {
            for rank in 0..ranks {
                let mut has = vec![false; ranks as usize];
                has[rank as usize] = true;
                for (nth, round) in rounds(rank, ranks).enumerate() {
                    let other = rounds(round.peer, ranks).nth(nth).expect("as many rounds");
                    assert_eq!(
                        (other.peer, other.from, other.to, other.chunks),
                        (rank, round.to, round.from, round.chunks)
                    );
                    let stretch = |first: u64| first as usize..(first + round.chunks) as usize;
                    assert!(
                        has[stretch(round.from)].iter().all(|has| *has),
                        "it sends what it has"
                    );
                    has[stretch(round.to)].fill(true);
                }
                assert!(has.iter().all(|has| *has), "rank {rank} of {ranks}");
            }
        }
    }
}
