//! all_gather: every rank receives the inputs of all ranks, in rank order.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, all_but_own_share, tree_depth},
};

pub(super) const SPEC: Spec = Spec {
    name: "all_gather",
    reduces: false,
    pairwise: false,
    rooted: false,
    uneven: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: SizeRequest::one_chunk_to_all,
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    steps: tree_depth,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let chunk = view.counts.param;
    let own = view.own_input(0, chunk);
    let gathered = stretch(view.counts.recv, Content::input(0, 0, chunk));
    match view.buffer_mode {
        BufferMode::OutOfPlace => view.out_of_place(stretch(chunk, own), gathered),
        BufferMode::InPlace => Layout {
            send_offset: view.rank * chunk,
            ..view.in_place(view.own_chunk_alone(own), gathered)
        },
    }
}
