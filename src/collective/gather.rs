//! gather: the root gets the inputs of all ranks, one after the other; the others' receive buffers stay as they were.

use super::{BufferMode, Counts, Layout, Spec, all_but_own_share, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "gather",
    reduces: false,
    pairwise: true,
    rooted: true,
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
        let (chunk, all) = (seat.counts.param, seat.counts.recv);
        let gathered = stretch(
            all,
            Content::Input {
                rank: 0,
                chunk: chunk.max(1),
                first: 0,
            },
        );
        match seat.buffer_mode {
            BufferMode::OutOfPlace => {
                let after = if seat.is_root() {
                    gathered
                } else {
                    stretch(all, Content::Sentinel)
                };
                seat.out_of_place(stretch(chunk, seat.own_input(0, chunk)), after)
            }
            BufferMode::InPlace => {
                let before =
                    seat.own_chunk_and_rest(seat.own_input(0, chunk), |_, _| Content::Sentinel);
                let after = if seat.is_root() {
                    gathered
                } else {
                    before.clone()
                };
                Layout {
                    send_offset: seat.rank * chunk,
                    ..seat.in_place(before, after)
                }
            }
        }
    },
};
