//! all_gather: every rank gets the inputs of all ranks, one after the other.

use super::{BufferMode, Counts, Layout, Spec, all_but_own_share, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "all_gather",
    reduces: false,
    pairwise: false,
    rooted: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: |ask| {
        let chunk = ask.per_rank();
        Counts {
            send: chunk,
            recv: chunk * ask.ranks,
            param: chunk,
        }
    },
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    layout: |seat| {
        let chunk = seat.counts.param;
        let gathered = stretch(
            seat.counts.recv,
            Content::Input {
                rank: 0,
                chunk: chunk.max(1),
                first: 0,
            },
        );
        match seat.buffer_mode {
            BufferMode::OutOfPlace => {
                seat.out_of_place(stretch(chunk, seat.own_input(0, chunk)), gathered)
            }
            BufferMode::InPlace => {
                let before =
                    seat.own_chunk_and_rest(seat.own_input(0, chunk), |_, _| Content::Sentinel);
                Layout {
                    send_offset: seat.rank * chunk,
                    ..seat.in_place(before, gathered)
                }
            }
        }
    },
};
