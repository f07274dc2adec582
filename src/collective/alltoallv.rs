//! alltoallv: rank r gets from each rank the part for r, and parts differ in size: see [`super::traffic`].

use super::{
    BufferMode, Counts, RankView, Region, Spec, all_but_own_share, data::Content, stretch,
    traffic::TrafficShares,
};

pub(super) const SPEC: Spec = Spec {
    name: "alltoallv",
    reduces: false,
    pairwise: true,
    rooted: false,
    checked_in_place: false,
    powers_of_two: false,
    counts: |ask| {
        // Of a matrix the size decides nothing, and nccl-tests shows a count of 0.
        let param = if ask.traffic.follows_size() {
            ask.per_rank()
        } else {
            0
        };
        let (traffic, ranks, element_size) = (ask.traffic, ask.ranks, ask.element_size);
        let (send, recv) = TrafficShares {
            traffic,
            ranks,
            total: param * ranks * element_size,
            element_size,
        }
        .most();
        Counts { send, recv, param }
    },
    algbw_elements: |counts, _| counts.send.max(counts.recv),
    bus_factor: all_but_own_share,
    layout: |seat| {
        let Counts { send, recv, .. } = seat.counts;
        match seat.buffer_mode {
            BufferMode::OutOfPlace => {
                let sent = seat.shares.sent(seat.rank);
                let input = Region {
                    offset: 0,
                    len: sent,
                    content: seat.own_input(0, sent),
                };
                seat.out_of_place(
                    filled_up(vec![input], send),
                    filled_up(received(seat), recv),
                )
            }
            BufferMode::InPlace => {
                let all = send.max(recv);
                seat.in_place(stretch(all, seat.own_input(0, all)), Vec::new())
            }
        }
    },
};

/// What a rank has received: from each rank what lies in its input behind what is for the ranks before.
fn received(seat: &RankView) -> Vec<Region> {
    let mut offset = 0;
    let part = |from: u64| {
        let len = seat.shares.elements(from, seat.rank);
        let first = seat.shares.before(from, seat.rank);
        let part = Region {
            offset,
            len,
            content: Content::Input {
                rank: from,
                chunk: len.max(1),
                first,
            },
        };
        offset += len;
        part
    };
    (0..seat.ranks).map(part).collect()
}

/// `regions` without the empty ones, and up to `len` what nobody may touch: buffers are as long as the longest of any rank.
fn filled_up(mut regions: Vec<Region>, len: u64) -> Vec<Region> {
    let end = regions.last().map_or(0, |last| last.offset + last.len);
    regions.push(Region {
        offset: end,
        len: len - end,
        content: Content::Sentinel,
    });
    regions.retain(|region| region.len > 0);
    regions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{SizeRequest, data::DType, traffic::Traffic};

    fn ask(traffic: Traffic, bytes: u64, ranks: u64) -> SizeRequest {
        SizeRequest {
            elements: bytes / 4,
            ranks,
            element_size: 4,
            traffic: traffic.keep(),
        }
    }

    fn matrix(text: &str) -> Traffic {
        let env =
            |name: &str| (name == crate::collective::traffic::MATRIX_FILE).then(|| "x".to_owned());
        Traffic::from_env(&env, &|_| Ok(text.to_owned())).expect("a matrix")
    }

    fn seat(ask: &SizeRequest, rank: u64) -> RankView {
        let counts = (SPEC.counts)(ask);
        let SizeRequest {
            ranks,
            element_size,
            traffic,
            ..
        } = *ask;
        let shares = TrafficShares {
            traffic,
            ranks,
            total: counts.param * ranks * element_size,
            element_size,
        };
        RankView {
            counts,
            rank,
            ranks,
            root: 0,
            buffer_mode: BufferMode::OutOfPlace,
            shares,
        }
    }

    #[test]
    fn counts_are_those_of_nccl_tests() {
        let counts = (SPEC.counts)(&ask(Traffic::Spread(1.0), 4800, 4));
        assert_eq!((counts.send, counts.recv, counts.param), (1200, 1200, 300));
        let counts = (SPEC.counts)(&ask(matrix("0 160 32\n16 0 0\n48 64 0"), 4800, 3));
        assert_eq!(
            (counts.send, counts.recv, counts.param),
            (48, 56, 0),
            "of the busiest rank"
        );
        assert_eq!(DType::Float.size(), 4);
    }

    #[test]
    fn each_part_is_where_the_sender_has_it() {
        let seat = seat(&ask(matrix("16 160 32\n16 0 80\n48 64 0"), 4800, 3), 1);
        let layout = (SPEC.layout)(&seat);
        let parts: Vec<_> = layout
            .expected
            .iter()
            .map(|region| (region.offset, region.len, region.content))
            .collect();
        let input = |rank, chunk, first| Content::Input { rank, chunk, first };
        assert_eq!(
            parts,
            [(0, 40, input(0, 40, 4)), (40, 16, input(2, 16, 12))]
        );
        assert_eq!(
            layout
                .send
                .iter()
                .map(|region| region.len)
                .collect::<Vec<_>>(),
            [24, 28],
            "and what nobody sends"
        );
    }
}
