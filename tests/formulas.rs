//! Sizes, counts, roundings and bandwidths are nccl-tests': its own table as test values, and properties over all sizes.

use proptest::prelude::*;
use pxnbench::{
    collective::{
        BufferMode, Case, Collective,
        data::DType,
        traffic::{DEFAULT, Traffic},
    },
    sweep::plan::{Roots, SizeStep, SweepSpec},
    units::{Bytes, Micros},
};

fn case(collective: Collective, size: u64, dtype: DType, ranks: u64) -> Case {
    Case::new(
        collective,
        Bytes(size),
        dtype,
        None,
        None,
        BufferMode::OutOfPlace,
        ranks,
    )
}

/// nccl-tests' own examples, as it prints them: size, count.
#[test]
fn roundings_that_nccl_tests_prints() {
    for (collective, size, ranks, printed, count) in [
        (Collective::AllGather, 64, 3, 48, 4),
        (Collective::AllGather, 8, 8, 0, 0),
        (Collective::AllGather, 1 << 20, 3, 1_048_560, 87_380),
        (Collective::AllReduce, 10, 3, 8, 2),
        (Collective::ReduceScatter, 64, 3, 48, 4),
        (Collective::AllToAll, 1 << 20, 3, 1_048_560, 87_380),
        (Collective::Gather, 64, 3, 48, 4),
        (Collective::Scatter, 64, 3, 48, 4),
        (Collective::Broadcast, 7, 2, 4, 1),
        (Collective::SendRecv, 1 << 20, 3, 1 << 20, 1 << 18),
        (Collective::HyperCube, 8, 8, 0, 0),
        (Collective::HyperCube, 1000, 4, 960, 60),
        (Collective::AllToAllV, 1 << 20, 3, 1_048_560, 87_380),
        (Collective::AllToAllV, 8, 8, 0, 0),
        (Collective::AllToAllV, 4096, 4, 4080, 256),
    ] {
        let case = case(collective, size, DType::Float, ranks);
        assert_eq!(
            (case.size().0, case.counts.param),
            (printed, count),
            "{collective} {size} on {ranks}"
        );
    }
}

/// The table of bandwidths: algbw counts these bytes, busbw is that times this factor.
#[test]
fn bandwidths() {
    // A size that an alltoallv can share out without a rest.
    let (size, n) = (3_u64 << 20, 4.0);
    let table = [
        (Collective::AllReduce, 2.0 * (n - 1.0) / n),
        (Collective::AllGather, (n - 1.0) / n),
        (Collective::ReduceScatter, (n - 1.0) / n),
        (Collective::Broadcast, 1.0),
        (Collective::Reduce, 1.0),
        (Collective::AllToAll, (n - 1.0) / n),
        (Collective::Gather, (n - 1.0) / n),
        (Collective::Scatter, (n - 1.0) / n),
        (Collective::SendRecv, 1.0),
        (Collective::HyperCube, 1.0),
        (Collective::AllToAllV, (n - 1.0) / n),
    ];
    assert_eq!(table.map(|(collective, _)| collective), Collective::ALL);
    for (collective, factor) in table {
        // nccl-tests counts for a hypercube what a rank sends: all but its own chunk.
        let bytes = if collective == Collective::HyperCube {
            size / 4 * 3
        } else {
            size
        };
        let (algbw, busbw) =
            case(collective, size, DType::Float, n as u64).bandwidth(Micros(100.0));
        assert!(
            (algbw.0 - bytes as f64 / 1e5).abs() < 1e-9,
            "{collective}: algbw {}",
            algbw.0
        );
        assert!(
            (busbw.0 - algbw.0 * factor).abs() < 1e-9,
            "{collective}: busbw {}",
            busbw.0
        );
    }
}

#[test]
fn a_hypercube_of_one_rank_sends_nothing() {
    assert_eq!(
        case(Collective::HyperCube, 1 << 20, DType::Float, 1)
            .bandwidth(Micros(100.0))
            .0
            .0,
        0.0
    );
}

#[test]
fn only_a_hypercube_minds_how_many_ranks_there_are() {
    for (collective, ranks) in Collective::ALL
        .into_iter()
        .flat_map(|c| (1..=9).map(move |ranks| (c, ranks)))
    {
        let why = case(collective, 1 << 20, DType::Float, ranks).impossible();
        let impossible = collective == Collective::HyperCube && ![1, 2, 4, 8].contains(&ranks);
        assert_eq!(why.is_some(), impossible, "{collective} on {ranks}");
        assert!(why.is_none_or(|why| why.starts_with(&format!("{ranks} is not a power of 2"))));
    }
}

/// A row of nccl-tests on two H200: 4294967296 B in 12463.5 us is 344.60 GB/s of both.
#[test]
fn a_row_of_nccl_tests_itself() {
    let (algbw, busbw) =
        case(Collective::AllReduce, 4 << 30, DType::Float, 2).bandwidth(Micros(12_463.5));
    assert_eq!(
        (format!("{:.2}", algbw.0), format!("{:.2}", busbw.0)),
        ("344.60".into(), "344.60".into())
    );
}

#[test]
fn each_alltoallv_carries_its_pattern() {
    let even: &'static Traffic = Traffic::Spread(0.0).keep();
    let case = |collective| case(collective, 4800, DType::Float, 4);
    let elements = |case: Case| {
        case.flows(0)
            .iter()
            .map(|flow| flow.send)
            .collect::<Vec<_>>()
    };
    let distant = case(Collective::AllToAllV);
    assert_eq!(elements(distant), [0, 200, 400, 600], "nccl-tests' default");
    assert_eq!(elements(distant.with_size(Bytes(4800), even)), [300; 4]);
    assert_eq!(
        elements(distant),
        [0, 200, 400, 600],
        "what another case carries changes nothing"
    );
    assert_eq!(
        case(Collective::AllToAll).with_size(Bytes(4800), even),
        case(Collective::AllToAll)
    );
}

#[test]
fn sizes_of_a_sweep() {
    let ask = |begin, end, step| SweepSpec {
        collectives: vec![Collective::AllReduce],
        begin: Bytes(begin),
        end: Bytes(end),
        step,
        dtypes: vec![DType::Float],
        redops: Vec::new(),
        roots: Roots::One(0),
        traffic: &DEFAULT,
    };
    let sizes = |ask: SweepSpec| ask.sizes().map(|size| size.0).collect::<Vec<_>>();
    assert_eq!(sizes(ask(8, 64, SizeStep::Factor(2))), [8, 16, 32, 64]);
    assert_eq!(sizes(ask(8, 63, SizeStep::Factor(2))), [8, 16, 32]);
    assert_eq!(
        sizes(ask(1000, 2000, SizeStep::Add(Bytes(500)))),
        [1000, 1500, 2000]
    );
    assert_eq!(sizes(ask(7, 7, SizeStep::Add(Bytes(1)))), [7]);
    // It ends although the next size is no 64-bit number.
    assert_eq!(
        sizes(ask(1 << 62, u64::MAX, SizeStep::Factor(4))),
        [1 << 62]
    );
}

fn any_case() -> impl Strategy<Value = Case> {
    let (collectives, dtypes) = (Collective::ALL.to_vec(), DType::ALL.to_vec());
    (
        prop::sample::select(collectives),
        prop::sample::select(dtypes),
        0..1_u64 << 34,
        1..5000_u64,
    )
        .prop_map(|(collective, dtype, size, ranks)| case(collective, size, dtype, ranks))
}

proptest! {
    #[test]
    fn a_case_is_never_larger_than_asked_for(case in any_case(), size in 0..1_u64 << 34) {
        let asked = Case::new(case.collective, Bytes(size), case.dtype, None, None, case.buffer_mode, case.ranks);
        prop_assert!(asked.size().0 <= size);
    }

    #[test]
    fn chunks_are_whole_16_byte_lines(case in any_case()) {
        if case.counts.send != case.counts.recv || case.collective == Collective::AllToAll {
            prop_assert_eq!(case.counts.param * case.dtype.size() % 16, 0);
        }
    }

    #[test]
    fn layouts_tile_their_buffers(case in any_case(), rank in 0..5000_u64, root in 0..5000_u64, in_place: bool) {
        let buffer_mode = if in_place { BufferMode::InPlace } else { BufferMode::OutOfPlace };
        let case = Case { buffer_mode, root: Some((root % case.ranks) as u32), ..case };
        let layout = case.layout(rank % case.ranks);
        let full = |regions: &[pxnbench::collective::data::Region]| {
            let ends = regions.iter().try_fold(0, |at, region| (region.offset == at).then_some(at + region.len));
            ends.expect("regions follow each other without gaps")
        };
        let recv = if in_place { case.counts.send.max(case.counts.recv) } else { case.counts.recv };
        prop_assert_eq!(full(&layout.recv), recv);
        prop_assert_eq!(full(&layout.send), if in_place { 0 } else { case.counts.send });
        // The whole receive buffer is checked, or nothing where nccl-tests checks nothing.
        prop_assert_eq!(full(&layout.expected), if case.is_checked() { recv } else { 0 });
    }
}
