//! sendrecv: each rank sends to the next rank and receives from the previous one, in a ring.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::Spec,
};

pub(super) const SPEC: Spec = Spec {
    name: "sendrecv",
    reduces: false,
    pairwise: true,
    rooted: false,
    uneven: false,
    checked_in_place: false,
    powers_of_two: false,
    counts: SizeRequest::all_in_both,
    algbw_elements: |counts, _| counts.param,
    bus_factor: |_| 1.0,
    steps: |_| 1.0,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let len = view.counts.recv;
    let input = stretch(len, view.own_input(0, len));
    match view.buffer_mode {
        BufferMode::OutOfPlace => {
            let previous = (view.rank + view.ranks - 1) % view.ranks;
            view.out_of_place(input, stretch(len, Content::input(previous, 0, len)))
        }
        BufferMode::InPlace => view.in_place(input, Vec::new()),
    }
}
