//! Fits of times whose costs are known, with noise from a seed.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{
    cost::{Coefficient, CostFit},
    forecast::Plan,
    latency::Latency,
    measurements::{Measurements, Point, Series, SeriesKey},
    step_plan::StepPlan,
};
use crate::{
    collective::{
        BufferMode, Case, CaseShape, Collective,
        data::{DType, RedOp},
    },
    exit::{Code, code_of},
    units::{Bytes, Micros},
    workload::{Communicator, Group, Step, StepOperation, StepWork},
};

/// The costs of the test: µs, µs per step, GB/s.
const COSTS: [f64; 3] = [12.0, 4.0, 50.0];

fn all_reduce(size: u64, ranks: u64) -> Case {
    let shape = CaseShape {
        collective: Collective::AllReduce,
        dtype: DType::Float,
        redop: Some(RedOp::Sum),
        root: None,
        buffer_mode: BufferMode::OutOfPlace,
        ranks,
    };
    shape.nearest(Bytes(size))
}

/// Returns the time of an all_reduce along a tree in us: 2 ⌈log₂ n⌉ steps, and 2 (n-1)/n of its
/// bytes.
fn true_time(size: u64, ranks: u64) -> f64 {
    let n = ranks as f64;
    let bus_bytes = size as f64 * 2.0 * (n - 1.0) / n;
    COSTS[0] + COSTS[1] * 2.0 * n.log2().ceil() + bus_bytes / (COSTS[2] * 1e3)
}

/// Returns a number from -1 to 1 that is distributed nearly normally, with a standard deviation of
/// a third.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    let mut sum = 0.0;
    for _ in 0..3 {
        sum += f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
    }
    sum / 3.0
}

fn series(
    ranks: &[u64],
    repetitions: usize,
    spread: f64,
    random: &mut ChaCha8Rng,
    time: fn(u64, u64) -> f64,
) -> Series {
    let mut points = Vec::new();
    for power in 0..12 {
        for ranks in ranks {
            for _ in 0..repetitions {
                let case = all_reduce(1024 << power, *ranks);
                let factor = 1.0 + spread * noise(random);
                let time = time(case.size().0, *ranks) * factor;
                points.push(Point::new(&case, Micros(time), None));
            }
        }
    }
    Series {
        key: SeriesKey::of(&all_reduce(1024, 2), ""),
        points,
    }
}

fn contains(coefficient: Option<Coefficient>, value: f64) -> bool {
    let interval = coefficient.and_then(|it| it.interval);
    interval.is_some_and(|[low, high]| low <= value && value <= high)
}

#[test]
fn exact_times_give_their_costs_and_predict_others() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let series = series(&[2, 4, 8], 1, 0.0, &mut random, true_time);
    let fit = CostFit::new(&series, 0.9).expect("a fit");
    let [cost] = fit.costs().try_into().expect("one regime");
    let values = [cost.constant_us, cost.step_us, cost.bandwidth];
    for (found, known) in values.into_iter().zip(COSTS) {
        let found = found.expect("a coefficient").value;
        assert!((found / known - 1.0).abs() < 1e-6, "{found} {known}");
    }
    assert_eq!(cost.latency, Some(Latency::Tree));
    assert!(cost.residual_largest_pct.expect("residuals") < 1e-6);
}

#[test]
fn intervals_of_costs_have_the_true_costs_as_often_as_stated() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let (mut inside, mut all) = (0, 0);
    for _ in 0..200 {
        let series = series(&[2, 8], 2, 0.1, &mut random, true_time);
        let fit = CostFit::new(&series, 0.9).expect("a fit");
        let [cost] = match <[_; 1]>::try_from(fit.costs()) {
            Ok(cost) => cost,
            Err(several) => panic!("{} regimes of one", several.len()),
        };
        let found = [cost.constant_us, cost.step_us, cost.bandwidth];
        for (found, known) in found.into_iter().zip(COSTS) {
            inside += u32::from(contains(found, known));
            all += 1;
        }
    }
    // Of 600 intervals of 90 %, a share of 0.9 ± 0.037 is right: three standard deviations,
    // sqrt(0.9 * 0.1 / 600) each.
    let share = f64::from(inside) / f64::from(all);
    assert!((0.85..=0.96).contains(&share), "{share}");
}

#[test]
fn intervals_from_half_of_the_points_hold_for_the_other_half_as_often_as_stated() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut shares = Vec::new();
    for _ in 0..200 {
        let mut series = series(&[2, 8], 2, 0.15, &mut random, true_time);
        // Fisher and Yates' shuffle.
        for at in (1..series.points.len()).rev() {
            let other = random.next_u32() as usize % (at + 1);
            series.points.swap(at, other);
        }
        let others = series.points.split_off(series.points.len() / 2);
        let fit = CostFit::new(&series, 0.9).expect("a fit");
        let inside = others.iter().filter(|point| {
            let (_, interval) = fit.time(point.size, point.ranks, point.bus_bytes);
            interval.is_some_and(|[low, high]| low <= point.time.0 && point.time.0 <= high)
        });
        shares.push(inside.count() as f64 / others.len() as f64);
    }
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let variance = shares
        .iter()
        .map(|share| (share - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let error = (variance / count).sqrt();
    assert!(mean + 3.0 * error >= 0.9, "{mean} ± {error}");
    assert!(
        mean < 0.99,
        "intervals that cover everything say nothing: {mean}"
    );
}

#[test]
fn a_change_of_protocol_becomes_a_regime() {
    // From 64 KiB on, four times the constant and ten times the bandwidth.
    let time = |size: u64, ranks: u64| match size {
        0..65_536 => true_time(size * 10, ranks),
        _ => 4.0 * COSTS[0] + true_time(size, ranks),
    };
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let series = series(&[2, 4], 2, 0.02, &mut random, time);
    let fit = CostFit::new(&series, 0.9).expect("a fit");
    let costs = fit.costs();
    assert!(costs.len() >= 2, "{} regimes", costs.len());
    assert!(costs.iter().any(|cost| cost.first_bytes == Bytes(65_536)));
    assert!(contains(costs[costs.len() - 1].bandwidth, COSTS[2]));
}

/// An all_reduce goes round its ring twice, in 2 (n - 1) steps.
#[test]
fn ring_latency_is_told_from_three_numbers_of_ranks() {
    let ring = |size: u64, ranks: u64| {
        let n = ranks as f64;
        let bus_bytes = size as f64 * 2.0 * (n - 1.0) / n;
        COSTS[0] + COSTS[1] * 2.0 * (n - 1.0) + bus_bytes / (COSTS[2] * 1e3)
    };
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let series = series(&[2, 4, 8, 16], 1, 0.02, &mut random, ring);
    let fit = CostFit::new(&series, 0.9).expect("a fit");
    let cost = &fit.costs()[0];
    assert_eq!(cost.latency, Some(Latency::Ring));
    let step = cost.step_us.expect("a latency").value;
    assert!((step / COSTS[1] - 1.0).abs() < 0.05, "{step}");
    assert!(fit.knows_other_ranks());
}

#[test]
fn a_ring_has_a_step_less_than_ranks_and_an_all_reduce_twice_as_many() {
    let steps = |collective| Latency::Ring.steps(collective, 8);
    assert_eq!(steps(Collective::AllReduce), 14.0);
    assert_eq!(steps(Collective::ReduceScatter), 7.0);
    assert_eq!(steps(Collective::Broadcast), 7.0);
}

fn plan_of(ranks: &[u64]) -> Plan {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let series = series(ranks, 1, 0.0, &mut random, true_time);
    let mut measurements = Measurements::default();
    measurements.series.push(series);
    Plan::fit(measurements, 0.9).expect("a plan")
}

#[test]
fn a_forecast_beyond_the_rows_is_marked_and_one_too_far_from_them_is_refused() {
    let plan = plan_of(&[2, 4]);
    let inside = plan.forecast(&all_reduce(4096, 4)).expect("a time");
    assert!(inside.extrapolated.is_empty());
    let outside = plan.forecast(&all_reduce(16 << 20, 32)).expect("a time");
    assert_eq!(outside.extrapolated, ["ranks", "size"]);
    let expected = true_time(16 << 20, 32);
    assert!((outside.time_us.0 / expected - 1.0).abs() < 1e-6);
    let refused = |plan: &Plan, size, ranks| {
        let error = plan
            .forecast(&all_reduce(size, ranks))
            .expect_err("refused");
        assert_eq!(code_of(&error), Code::Usage);
        error.to_string()
    };
    assert_eq!(
        refused(&plan, 4096, 33),
        "all_reduce float sum was measured on up to 4 ranks, and 33 are more than 8 times as \
         many. Measure it on at least 5"
    );
    assert_eq!(
        refused(&plan, 64 << 20, 4),
        "all_reduce float sum was measured up to 2M, and 64M is more than 16 times as large. \
         Measure it up to at least 4M"
    );
    assert_eq!(
        refused(&plan_of(&[4]), 4096, 8),
        "all_reduce float sum was measured on 4 ranks only, so its time on 8 cannot be predicted. \
         Measure it on another number of ranks too"
    );
    let broadcast = Case {
        collective: Collective::Broadcast,
        ..all_reduce(4096, 4)
    };
    let error = plan.forecast(&broadcast).expect_err("refused");
    assert!(error.to_string().starts_with("no run measured broadcast"));
}

/// Computations a of 100 and c of 50 µs run one after the other. An all_reduce b waits for a and
/// runs beside c; an all_reduce d waits for c, and follows b in its stream.
#[test]
fn a_step_lies_between_full_overlap_and_none() {
    let operation = |name: &str, stream, after: &[usize], work| StepOperation {
        name: name.to_owned(),
        stream,
        after: after.to_vec(),
        work,
    };
    let reduce = |size| StepWork::Collective {
        communicator: 0,
        case: all_reduce(size, 4),
    };
    let step = Step {
        streams: vec!["compute".into(), "gradients".into()],
        communicators: vec![Communicator {
            name: "data".into(),
            stream: 1,
            group: Group {
                colors: vec![0; 4],
                ranks: (0..4).collect(),
                size: 4,
            },
        }],
        operations: vec![
            operation("a", 0, &[], StepWork::Compute(Micros(100.0))),
            operation("b", 1, &[0], reduce(4096)),
            operation("c", 0, &[], StepWork::Compute(Micros(50.0))),
            operation("d", 1, &[2], reduce(1 << 20)),
        ],
    };
    let planned = StepPlan::new(&plan_of(&[2, 4]), "test", 4, &step).expect("a plan");
    let (b, d) = (true_time(4096, 4), true_time(1 << 20, 4));
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
    };
    near(planned.communication_us.0, b + d);
    near(planned.no_overlap.step_us.0, 150.0 + b + d);
    near(planned.full_overlap.step_us.0, (100.0 + b).max(150.0) + d);
    let full = planned.full_overlap;
    near(full.exposed_share, 1.0 - 150.0 / full.step_us.0);
    near(full.gpu_hours, full.step_us.0 * 4.0 * 1000.0 / 3.6e9);
    near(full.gpu_hours_wasted, full.gpu_hours * full.exposed_share);
    assert!(planned.remarks.is_empty(), "{:?}", planned.remarks);
}
