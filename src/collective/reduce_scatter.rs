//! reduce_scatter: rank r receives chunk r of the reduction of all inputs.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, all_but_own_share, tree_depth},
};

pub(super) const SPEC: Spec = Spec {
    name: "reduce_scatter",
    reduces: true,
    pairwise: false,
    rooted: false,
    uneven: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: SizeRequest::all_to_one_chunk,
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    steps: tree_depth,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let (chunk, all) = (view.counts.param, view.counts.send);
    let input = stretch(all, view.own_input(0, all));
    let first = view.rank * chunk;
    let share = Content::Reduced { first };
    match view.buffer_mode {
        BufferMode::OutOfPlace => view.out_of_place(input, stretch(chunk, share)),
        BufferMode::InPlace => {
            let after = view.own_chunk_and_rest(share, |offset, len| view.own_input(offset, len));
            Layout {
                recv_offset: first,
                ..view.in_place(input, after)
            }
        }
    }
}
