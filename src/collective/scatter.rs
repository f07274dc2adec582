//! scatter: rank r gets the r-th chunk of the root's input.

use super::{BufferMode, Counts, Layout, Spec, all_but_own_share, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "scatter",
    reduces: false,
    pairwise: true,
    rooted: true,
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
        let share = Content::Input {
            rank: seat.root,
            chunk: chunk.max(1),
            first: seat.rank * chunk,
        };
        // Only the root's send buffer counts; the others' hold what nobody may receive.
        let before = match seat.is_root() {
            true => stretch(all, seat.own_input(0, all)),
            false => stretch(all, Content::Sentinel),
        };
        match seat.buffer_mode {
            BufferMode::OutOfPlace => seat.out_of_place(before, stretch(chunk, share)),
            BufferMode::InPlace => {
                let after = match seat.is_root() {
                    true => before.clone(),
                    false => seat.own_chunk_and_rest(share, |_, _| Content::Sentinel),
                };
                Layout {
                    recv_offset: seat.rank * chunk,
                    ..seat.in_place(before, after)
                }
            }
        }
    },
};
