//! reduce_scatter: rank r gets the r-th share of the reduction of all inputs.

use super::{BufferMode, Counts, Layout, Spec, all_but_own_share, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "reduce_scatter",
    reduces: true,
    pairwise: false,
    rooted: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: |ask| {
        let chunk = ask.per_rank();
        Counts {
            send: chunk * ask.ranks,
            recv: chunk,
            param: chunk,
        }
    },
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    layout: |seat| {
        let (chunk, all) = (seat.counts.param, seat.counts.send);
        let input = stretch(all, seat.own_input(0, all));
        let share = Content::Reduced {
            first: seat.rank * chunk,
        };
        match seat.buffer_mode {
            BufferMode::OutOfPlace => seat.out_of_place(input, stretch(chunk, share)),
            BufferMode::InPlace => {
                let after =
                    seat.own_chunk_and_rest(share, |offset, len| seat.own_input(offset, len));
                Layout {
                    recv_offset: seat.rank * chunk,
                    ..seat.in_place(input, after)
                }
            }
        }
    },
};
