//! all_reduce: every rank gets the reduction of all inputs.

use super::{BufferMode, Counts, Spec, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "all_reduce",
    reduces: true,
    pairwise: false,
    rooted: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: |ask| Counts {
        send: ask.elements,
        recv: ask.elements,
        param: ask.elements,
    },
    algbw_elements: |counts, _| counts.param,
    // A ring sends each element round twice, less the hop it starts and ends on.
    bus_factor: |ranks| 2.0 * (ranks - 1.0) / ranks,
    layout: |seat| {
        let len = seat.counts.recv;
        let (input, result) = (
            stretch(len, seat.own_input(0, len)),
            stretch(len, Content::Reduced { first: 0 }),
        );
        match seat.buffer_mode {
            BufferMode::OutOfPlace => seat.out_of_place(input, result),
            BufferMode::InPlace => seat.in_place(input, result),
        }
    },
};
