//! reduce: the root gets the reduction of all inputs; the others' receive buffers stay as they were.

use super::{BufferMode, Counts, Spec, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "reduce",
    reduces: true,
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
        let input = stretch(len, seat.own_input(0, len));
        let result = Content::Reduced { first: 0 };
        match seat.buffer_mode {
            BufferMode::OutOfPlace => {
                let after = if seat.is_root() {
                    result
                } else {
                    Content::Sentinel
                };
                seat.out_of_place(input, stretch(len, after))
            }
            BufferMode::InPlace => {
                let after = if seat.is_root() {
                    stretch(len, result)
                } else {
                    input.clone()
                };
                seat.in_place(input, after)
            }
        }
    },
};
