//! gather: the root receives the inputs of all ranks, in rank order; the other ranks' receive
//! buffers stay unchanged.

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::SizeRequest,
    data::Content,
    spec::{Spec, all_but_own_share},
};

pub(super) const SPEC: Spec = Spec {
    name: "gather",
    reduces: false,
    pairwise: true,
    rooted: true,
    uneven: false,
    checked_in_place: true,
    powers_of_two: false,
    counts: SizeRequest::one_chunk_to_all,
    algbw_elements: |counts, ranks| counts.param * ranks,
    bus_factor: all_but_own_share,
    steps: |_| 1.0,
    layout,
};

fn layout(view: &RankView) -> Layout {
    let (chunk, all) = (view.counts.param, view.counts.recv);
    let own = view.own_input(0, chunk);
    let gathered = stretch(all, Content::input(0, 0, chunk));
    match view.buffer_mode {
        BufferMode::OutOfPlace => {
            let after = if view.is_root() {
                gathered
            } else {
                stretch(all, Content::Sentinel)
            };
            view.out_of_place(stretch(chunk, own), after)
        }
        BufferMode::InPlace => {
            let before = view.own_chunk_alone(own);
            let after = if view.is_root() {
                gathered
            } else {
                before.clone()
            };
            Layout {
                send_offset: view.rank * chunk,
                ..view.in_place(before, after)
            }
        }
    }
}
