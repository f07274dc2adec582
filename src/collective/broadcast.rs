//! broadcast: every rank gets the root's input.

use super::{BufferMode, Counts, Spec, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "broadcast",
    reduces: false,
    pairwise: false,
    rooted: true,
    checked_in_place: true,
    powers_of_two: false,
    counts: |ask| Counts {
        send: ask.elements,
        recv: ask.elements,
        param: ask.elements,
    },
    algbw_elements: |counts, _| counts.param,
    bus_factor: |_| 1.0,
    layout: |seat| {
        let len = seat.counts.recv;
        let from_root = stretch(
            len,
            Content::Input {
                rank: seat.root,
                chunk: len.max(1),
                first: 0,
            },
        );
        let before = if seat.is_root() {
            from_root.clone()
        } else {
            stretch(len, Content::Sentinel)
        };
        match seat.buffer_mode {
            // Only the root's send buffer counts; the others' hold what nobody may receive.
            BufferMode::OutOfPlace => seat.out_of_place(before, from_root),
            BufferMode::InPlace => seat.in_place(before, from_root),
        }
    },
};
