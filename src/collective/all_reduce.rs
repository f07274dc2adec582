//! all_reduce: every rank receives the reduction of all inputs.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, tree_depth},
};

pub(super) const SPEC: Spec = Spec {
    name: "all_reduce",
    reduces: true,
    pairwise: false,
    rooted: false,
    uneven: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: SizeRequest::all_in_both,
    algbw_elements: |counts, _| counts.param,
    // A ring sends each element round twice, except for the hop on which it starts and ends.
    bus_factor: |ranks| 2.0 * (ranks - 1.0) / ranks,
    steps: |ranks| 2.0 * tree_depth(ranks),
    layout,
};

fn layout(view: &RankView) -> Layout {
    let len = view.counts.recv;
    let input = stretch(len, view.own_input(0, len));
    let result = stretch(len, Content::Reduced { first: 0 });
    match view.buffer_mode {
        BufferMode::OutOfPlace => view.out_of_place(input, result),
        BufferMode::InPlace => view.in_place(input, result),
    }
}
