//! broadcast: every rank receives the root's input.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, tree_depth},
};

pub(super) const SPEC: Spec = Spec {
    name: "broadcast",
    reduces: false,
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
    let from_root = stretch(len, Content::input(view.root, 0, len));
    // Only the root's send buffer is read; the other ranks' buffers hold values that nobody may
    // receive.
    let before = if view.is_root() {
        from_root.clone()
    } else {
        stretch(len, Content::Sentinel)
    };
    match view.buffer_mode {
        BufferMode::OutOfPlace => view.out_of_place(before, from_root),
        BufferMode::InPlace => view.in_place(before, from_root),
    }
}
