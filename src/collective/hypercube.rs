//! hypercube: every rank gets the inputs of all ranks, as all_gather, by exchanges whose data double: in round k with the
//! rank whose number differs in bit k.

use super::{Spec, all_gather};

pub(super) const SPEC: Spec = Spec {
    name: "hypercube",
    reduces: false,
    pairwise: true,
    rooted: false,
    checked_in_place: true,
    powers_of_two: true,
    counts: all_gather::SPEC.counts,
    // What a rank sends over all rounds: a chunk, two, four, up to half of all.
    algbw_elements: |counts, ranks| counts.param * (ranks - 1),
    bus_factor: |_| 1.0,
    layout: all_gather::SPEC.layout,
};

/// What one rank exchanges in one round. Offsets and lengths count chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The rank it exchanges with.
    pub peer: u64,
    /// What it sends: all that it has.
    pub from: u64,
    /// Where what it receives begins.
    pub to: u64,
    /// Chunks sent, and as many received.
    pub chunks: u64,
}

/// The rounds of `rank` among `ranks`, a power of two. Before the first, its own chunk is in place.
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
