//! scatter: rank r receives chunk r of the root's input.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, all_but_own_share},
};

pub(super) const SPEC: Spec = Spec {
    name: "scatter",
    reduces: false,
    pairwise: true,
    rooted: true,
    uneven: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: SizeRequest::all_to_one_chunk,
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    steps: |_| 1.0,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let (chunk, all) = (view.counts.param, view.counts.send);
    let first = view.rank * chunk;
    let share = Content::input(view.root, first, chunk);
    // Only the root's send buffer is read; the other ranks' buffers hold values that nobody may
    // receive.
    let before = if view.is_root() {
        stretch(all, view.own_input(0, all))
    } else {
        stretch(all, Content::Sentinel)
    };
    match view.buffer_mode {
        BufferMode::OutOfPlace => view.out_of_place(before, stretch(chunk, share)),
        BufferMode::InPlace => {
            let after = if view.is_root() {
                before.clone()
            } else {
                view.own_chunk_alone(share)
            };
            Layout {
                recv_offset: first,
                ..view.in_place(before, after)
            }
        }
    }
}
