//! alltoall: rank r receives chunk r of every rank's input.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, all_but_own_share},
};

pub(super) const SPEC: Spec = Spec {
    name: "alltoall",
    reduces: false,
    pairwise: true,
    rooted: false,
    uneven: false,
    checked_in_place: false,
    powers_of_two: false,
    counts: SizeRequest::a_chunk_per_rank_in_both,
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    steps: |_| 1.0,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let (chunk, all) = (view.counts.param, view.counts.send);
    let input = stretch(all, view.own_input(0, all));
    match view.buffer_mode {
        BufferMode::OutOfPlace => {
            let from_each = Content::input(0, view.rank * chunk, chunk);
            view.out_of_place(input, stretch(all, from_each))
        }
        BufferMode::InPlace => view.in_place(input, Vec::new()),
    }
}
