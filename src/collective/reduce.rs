//! reduce: the root receives the reduction of all inputs; the other ranks' receive buffers stay
//! unchanged.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, tree_depth},
};

pub(super) const SPEC: Spec = Spec {
    name: "reduce",
    reduces: true,
    pairwise: false,
    rooted: true,
    uneven: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: SizeRequest::all_in_both,
    algbw_elements: |counts, _| counts.param,
    bus_factor: |_| 1.0,
    steps: tree_depth,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let len = view.counts.recv;
    let input = stretch(len, view.own_input(0, len));
    let result = stretch(len, Content::Reduced { first: 0 });
    match (view.buffer_mode, view.is_root()) {
        (BufferMode::OutOfPlace, true) => view.out_of_place(input, result),
        (BufferMode::OutOfPlace, false) => {
            view.out_of_place(input, stretch(len, Content::Sentinel))
        }
        (BufferMode::InPlace, true) => view.in_place(input, result),
        (BufferMode::InPlace, false) => view.in_place(input.clone(), input),
    }
}
