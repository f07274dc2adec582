//! alltoallv: rank r receives from each rank the part for r. Parts differ in size: see
//! [`super::traffic`].

use super::{
    buffers::{BufferMode, Layout, RankView, stretch},
    counts::{Counts, SizeRequest},
    data::{Content, Region},
    spec::{Spec, all_but_own_share},
    traffic::TrafficShares,
};

pub(super) const SPEC: Spec = Spec {
    name: "alltoallv",
    reduces: false,
    pairwise: true,
    rooted: false,
    uneven: true,
    checked_in_place: false,
    powers_of_two: false,
    counts,
    algbw_elements: |counts, _| counts.send.max(counts.recv),
    bus_factor: all_but_own_share,
    steps: |_| 1.0,
    layout,
};

fn counts(request: &SizeRequest) -> Counts {
    // The size does not affect a matrix, for which nccl-tests shows a count of 0.
    let param = if request.traffic.follows_size() {
        request.chunk()
    } else {
        0
    };
    let shares = TrafficShares::new(request.traffic, param, request.ranks, request.element_size);
    let (send, recv) = shares.most();
    Counts { send, recv, param }
}

fn layout(view: &RankView) -> Layout {
    let Counts { send, recv, .. } = view.counts;
    match view.buffer_mode {
        BufferMode::OutOfPlace => {
            let shares = view
                .shares
                .expect("a case of an alltoallv has its traffic in the process that made it");
            let sent = shares.sent(view.rank);
            let input = stretch(sent, view.own_input(0, sent));
            let received = received(&shares, view.rank);
            view.out_of_place(padded(input, send), padded(received, recv))
        }
        BufferMode::InPlace => {
            let all = send.max(recv);
            view.in_place(stretch(all, view.own_input(0, all)), Vec::new())
        }
    }
}

/// Returns what `rank` has received: from each rank the part of its input behind the parts for the
/// ranks before.
fn received(shares: &TrafficShares, rank: u64) -> Vec<Region> {
    let mut regions = Vec::new();
    let mut offset = 0;
    for from in 0..shares.ranks {
        let len = shares.elements(from, rank);
        let first = shares.before(from, rank);
        regions.push(Region {
            offset,
            len,
            content: Content::input(from, first, len),
        });
        offset += len;
    }
    regions
}

/// Returns `regions` without the empty ones, followed up to `len` by what nobody may touch: the
/// buffers of each rank are as long as the longest of any rank.
fn padded(mut regions: Vec<Region>, len: u64) -> Vec<Region> {
    let end = regions.last().map_or(0, |last| last.offset + last.len);
    regions.push(Region {
        offset: end,
        len: len - end,
        content: Content::Sentinel,
    });
    regions.retain(|region| region.len > 0);
    regions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{
        data::DType,
        traffic::{MATRIX_FILE, Traffic},
    };

    fn request(traffic: Traffic, bytes: u64, ranks: u64) -> SizeRequest {
        SizeRequest {
            elements: bytes / 4,
            ranks,
            element_size: 4,
            traffic: traffic.keep(),
        }
    }

    fn matrix(text: &str) -> Traffic {
        let env = |name: &str| (name == MATRIX_FILE).then(|| "x".to_owned());
        Traffic::from_env(&env, &|_| Ok(text.to_owned())).expect("a matrix")
    }

    fn view(request: &SizeRequest, rank: u64) -> RankView {
        let counts = (SPEC.counts)(request);
        RankView {
            counts,
            rank,
            ranks: request.ranks,
            root: 0,
            buffer_mode: BufferMode::OutOfPlace,
            shares: Some(TrafficShares::new(
                request.traffic,
                counts.param,
                request.ranks,
                request.element_size,
            )),
        }
    }

    #[test]
    fn counts_are_those_of_nccl_tests() {
        let counts = (SPEC.counts)(&request(Traffic::Spread(1.0), 4800, 4));
        assert_eq!((counts.send, counts.recv, counts.param), (1200, 1200, 300));
        let counts = (SPEC.counts)(&request(matrix("0 160 32\n16 0 0\n48 64 0"), 4800, 3));
        assert_eq!(
            (counts.send, counts.recv, counts.param),
            (48, 56, 0),
            "of the busiest rank"
        );
        assert_eq!(DType::Float.size(), 4);
    }

    #[test]
    fn each_part_is_where_the_sender_has_it() {
        let view = view(&request(matrix("16 160 32\n16 0 80\n48 64 0"), 4800, 3), 1);
        let layout = (SPEC.layout)(&view);
        let parts: Vec<_> = layout
            .expected
            .iter()
            .map(|region| (region.offset, region.len, region.content))
            .collect();
        assert_eq!(
            parts,
            [
                (0, 40, Content::input(0, 4, 40)),
                (40, 16, Content::input(2, 12, 16))
            ]
        );
        assert_eq!(
            layout
                .send
                .iter()
                .map(|region| region.len)
                .collect::<Vec<_>>(),
            [24, 28],
            "and what nobody sends"
        );
    }
}
