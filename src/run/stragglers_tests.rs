//! What findings mean for ranks and nodes, in words.

use super::*;
use crate::{
    collective::{CaseShape, data::DType},
    record::Device,
    stats::lateness::{RankIteration, RankLateness},
    units::Bytes,
};

fn case(collective: Collective, size: u64) -> Case {
    let shape = CaseShape {
        collective,
        dtype: DType::Float,
        redop: None,
        root: None,
        buffer_mode: BufferMode::OutOfPlace,
        ranks: 4,
    };
    shape.nearest(Bytes(size))
}

/// Two nodes of two ranks.
fn processes() -> Vec<ProcessMeta> {
    let mut all = Vec::new();
    for rank in 0..4 {
        all.push(ProcessMeta {
            rank,
            group: 0,
            host: format!("n{}", rank / 2),
            node: rank / 2,
            local_rank: rank % 2,
            pid: 1,
            device: Device {
                bus: "host memory".into(),
                ..Device::default()
            },
        });
    }
    all
}

/// Returns 100 iterations of 1000 us in which `late` arrive 250 us late.
fn observed(late: &[usize]) -> CaseLateness {
    let mut by_rank = Vec::new();
    for rank in 0..4 {
        let delay = if late.contains(&rank) { 250.0 } else { 0.0 };
        let operation = if late.is_empty() {
            1000.0
        } else {
            1250.0 - delay
        };
        by_rank.push(vec![
            RankIteration {
                barrier: 1.0,
                total: operation + delay,
                operation,
            };
            100
        ]);
    }
    CaseLateness::new(&by_rank)
}

fn report(cases: &[Case], observed: &[CaseLateness]) -> StragglerReport {
    let mut report = StragglerReport::default();
    judge(&mut report, cases, observed, &processes());
    report
}

#[test]
fn a_late_rank_is_named_with_its_host_device_sizes_and_lateness() {
    let cases = [8 << 10, 64 << 10, 1 << 20].map(|size| case(Collective::AllReduce, size));
    let report = report(&cases, &[observed(&[]), observed(&[2]), observed(&[2])]);
    assert_eq!(
        report.sentences(),
        [
            "straggler: rank 2 on n1 (host memory) arrives late in all_reduce of 64K to 1M: at 1M \
             by 250 us, 20 % of an operation, in 100 % of them"
        ]
    );
    assert_eq!(report.stragglers.len(), 1);
    assert_eq!(report.rows.len(), 12);
    let late: Vec<_> = report
        .rows
        .iter()
        .filter(|row| !row.late.is_empty())
        .collect();
    assert_eq!(late.len(), 2);
    assert!(
        late.iter()
            .all(|row| row.rank == 2 && row.arrival_us == 250.0)
    );
}

#[test]
fn a_node_whose_ranks_are_all_late_is_named_as_a_whole() {
    let cases = [case(Collective::AllGather, 1 << 20)];
    let report = report(&cases, &[observed(&[2, 3])]);
    assert_eq!(report.stragglers.len(), 2);
    assert_eq!(
        report.sentences(),
        ["straggler: node n1 as a whole, 2 of its 2 processes arrive late"]
    );
}

#[test]
fn without_a_straggler_the_number_of_operations_is_said() {
    let cases = [case(Collective::AllReduce, 1 << 20)];
    let report = report(&cases, &[observed(&[])]);
    assert_eq!(
        report.sentences(),
        ["no straggler: in 100 operations of 1 case nobody is late beyond chance"]
    );
}

#[test]
fn what_cannot_be_told_is_said_with_its_reason() {
    let mut report = StragglerReport::default();
    report
        .cannot_tell
        .push("broadcast: a rank may end before all have arrived".into());
    assert_eq!(
        report.sentences(),
        ["who is late cannot be told: broadcast: a rank may end before all have arrived"]
    );
}

#[test]
fn the_threads_of_a_process_are_named_together() {
    let lateness = CaseLateness {
        iterations: 100,
        operation_us: 1000.0,
        ranks: vec![RankLateness::default(); 2],
    };
    let found = Finding {
        case: 0,
        rank: 1,
        late: Late::Transfer,
    };
    let mut observed = [lateness];
    let transfer = &mut observed[0].ranks[1].transfer;
    (transfer.late, transfer.typical_us) = (100, 500.0);
    let cases = [case(Collective::AllReduce, 1 << 20)];
    let straggler = straggler(&[found], &cases, &observed, &processes()[2]).expect("a straggler");
    let sentence = Straggler {
        ranks: 2,
        ..straggler
    }
    .sentence();
    assert_eq!(
        sentence,
        "straggler: ranks 2 to 3 on n1 end late in all_reduce of 1M: at 1M by 500 us, 50 % of an \
         operation, in 100 % of them"
    );
}

#[test]
fn a_rank_that_is_late_in_both_ways_has_both_in_its_row() {
    let mut lateness = observed(&[]);
    lateness.ranks[1].arrival.make_certain();
    lateness.ranks[1].transfer.make_certain();
    let report = report(&[case(Collective::AllReduce, 1 << 20)], &[lateness]);
    assert_eq!(report.rows[1].late, [Late::Arrival, Late::Transfer]);
    assert!(report.rows[0].late.is_empty());
    assert_eq!(report.stragglers.len(), 2);
}

#[test]
fn few_sizes_are_spread_over_all() {
    let cases: Vec<Case> = (0..20)
        .map(|power| case(Collective::AllReduce, 8 << power))
        .collect();
    let sizes: Vec<u64> = spread_over(&cases, 4)
        .iter()
        .map(|case| case.size().0)
        .collect();
    assert_eq!(sizes, [8, 8 << 6, 8 << 12, 8 << 19]);
    assert_eq!(spread_over(&cases, 30).len(), 20);
    assert_eq!(spread_over(&cases, 1)[0].size(), Bytes(8 << 19));
    assert!(spread_over(&[], 1).is_empty() && spread_over(&[], 0).is_empty());
}
