//! sendrecv: each rank sends to the next rank and receives from the one before, in a ring.

use super::{BufferMode, Counts, Spec, data::Content, stretch};

pub(super) const SPEC: Spec = Spec {
    name: "sendrecv",
    reduces: false,
    pairwise: true,
    rooted: false,
    checked_in_place: false,
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
        match seat.buffer_mode {
            BufferMode::OutOfPlace => {
                let before_me = (seat.rank + seat.ranks - 1) % seat.ranks;
                let received = Content::Input {
                    rank: before_me,
                    chunk: len.max(1),
                    first: 0,
                };
                seat.out_of_place(input, stretch(len, received))
            }
            BufferMode::InPlace => seat.in_place(input, Vec::new()),
        }
    },
};
