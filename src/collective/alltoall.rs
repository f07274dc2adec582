//! alltoall: rank r gets the r-th chunk of every rank's input.

use super::{BufferMode, Counts, Spec, all_but_own_share, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "alltoall",
    reduces: false,
    pairwise: true,
    rooted: false,
    checked_in_place: false,
    powers_of_two: false,
    counts: |ask| {
        let chunk = ask.per_rank();
        Counts {
            send: chunk * ask.ranks,
            recv: chunk * ask.ranks,
            param: chunk,
        }
    },
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    layout: |seat| {
        let (chunk, all) = (seat.counts.param, seat.counts.send);
        let input = stretch(all, seat.own_input(0, all));
        match seat.buffer_mode {
            BufferMode::OutOfPlace => {
                let from_each = Content::Input {
                    rank: 0,
                    chunk: chunk.max(1),
                    first: seat.rank * chunk,
                };
                seat.out_of_place(input, stretch(all, from_each))
            }
            BufferMode::InPlace => seat.in_place(input, Vec::new()),
        }
    },
};
