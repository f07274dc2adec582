//! Sizes, counts, roundings and bandwidths are nccl-tests': its own table as test values, and
//! properties over all sizes.

use proptest::prelude::*;
use pxnbench::{
    collective::{
        BufferMode, Case, CaseShape, Collective,
        data::DType,
        traffic::{DEFAULT, Traffic},
    },
    sweep::plan::{Roots, SizeStep, SweepSpec},
    units::{Bytes, Micros},
};

fn case(collective: Collective, size: u64, dtype: DType, ranks: u64) -> Case {
    CaseShape {
        collective,
        dtype,
        redop: None,
        root: None,
        buffer_mode: BufferMode::OutOfPlace,
        ranks,
    }
    .nearest(Bytes(size))
}

/// How nccl-tests rounds the size of a case.
struct Rounding {
    collective: Collective,
    /// The size asked for.
    size: u64,
    ranks: u64,
    printed_size: u64,
    count: u64,
}

/// nccl-tests' own examples, as it prints them.
const ROUNDINGS: [Rounding; 15] = [
    Rounding {
        collective: Collective::AllGather,
        size: 64,
        ranks: 3,
        printed_size: 48,
        count: 4,
    },
    Rounding {
        collective: Collective::AllGather,
        size: 8,
        ranks: 8,
        printed_size: 0,
        count: 0,
    },
    Rounding {
        collective: Collective::AllGather,
        size: 1 << 20,
        ranks: 3,
        printed_size: 1_048_560,
        count: 87_380,
    },
    Rounding {
        collective: Collective::AllReduce,
        size: 10,
        ranks: 3,
        printed_size: 8,
        count: 2,
    },
    Rounding {
        collective: Collective::ReduceScatter,
        size: 64,
        ranks: 3,
        printed_size: 48,
        count: 4,
    },
    Rounding {
        collective: Collective::AllToAll,
        size: 1 << 20,
        ranks: 3,
        printed_size: 1_048_560,
        count: 87_380,
    },
    Rounding {
        collective: Collective::Gather,
        size: 64,
        ranks: 3,
        printed_size: 48,
        count: 4,
    },
    Rounding {
        collective: Collective::Scatter,
        size: 64,
        ranks: 3,
        printed_size: 48,
        count: 4,
    },
    Rounding {
        collective: Collective::Broadcast,
        size: 7,
        ranks: 2,
        printed_size: 4,
        count: 1,
    },
    Rounding {
        collective: Collective::SendRecv,
        size: 1 << 20,
        ranks: 3,
        printed_size: 1 << 20,
        count: 1 << 18,
    },
    Rounding {
        collective: Collective::HyperCube,
        size: 8,
        ranks: 8,
        printed_size: 0,
        count: 0,
    },
    Rounding {
        collective: Collective::HyperCube,
        size: 1000,
        ranks: 4,
        printed_size: 960,
        count: 60,
    },
    Rounding {
        collective: Collective::AllToAllV,
        size: 1 << 20,
        ranks: 3,
        printed_size: 1_048_560,
        count: 87_380,
    },
    Rounding {
        collective: Collective::AllToAllV,
        size: 8,
        ranks: 8,
        printed_size: 0,
        count: 0,
    },
    Rounding {
        collective: Collective::AllToAllV,
        size: 4096,
        ranks: 4,
        printed_size: 4080,
        count: 256,
    },
];

#[test]
fn roundings_that_nccl_tests_prints() {
    for Rounding {
        collective,
        size,
        ranks,
        printed_size,
        count,
    } in ROUNDINGS
    {
        let case = case(collective, size, DType::Float, ranks);
        assert_eq!(
            (case.size().0, case.counts.param),
            (printed_size, count),
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
        let asked = CaseShape { collective: case.collective, dtype: case.dtype, redop: None, root: None, buffer_mode: case.buffer_mode, ranks: case.ranks }.nearest(Bytes(size));
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
