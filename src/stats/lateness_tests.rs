//! Simulated runs, each from a seed: how often the rule names a rank that is late, and one that is
//! not.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::*;

/// Time of an operation and of a barrier without noise, in microseconds.
const OPERATION: f64 = 1000.0;
const BARRIER: f64 = 50.0;

/// A simulated run of a case.
struct Simulated {
    random: ChaCha8Rng,
    ranks: usize,
    /// Share of iterations in which the machine interrupts a rank, for milliseconds.
    interrupted: f64,
}

impl Simulated {
    fn new(ranks: usize, interrupted: f64, seed: u64) -> Simulated {
        Simulated {
            random: ChaCha8Rng::seed_from_u64(seed),
            ranks,
            interrupted,
        }
    }

    /// Returns a number from 0 to 1.
    fn uniform(&mut self) -> f64 {
        f64::from(self.random.next_u32()) / f64::from(u32::MAX)
    }

    /// Returns an interruption: most often none, otherwise a time with a heavy tail (Pareto's
    /// distribution).
    fn interruption(&mut self) -> f64 {
        if self.uniform() >= self.interrupted {
            return 0.0;
        }
        500.0 / (1.0 - 0.999 * self.uniform()).powf(0.7)
    }

    /// Returns what the ranks measure: all leave the barrier at slightly different times, `arrival`
    /// delays a rank before the operation and `transfer` at its end.
    fn run(
        &mut self,
        iterations: usize,
        arrival: impl Fn(usize, f64) -> f64,
        transfer: impl Fn(usize, f64) -> f64,
    ) -> CaseLateness {
        let mut by_rank = vec![Vec::new(); self.ranks];
        for _ in 0..iterations {
            let mut barriers = Vec::new();
            let mut released = Vec::new();
            let mut arrived = Vec::new();
            let luck = self.uniform();
            for rank in 0..self.ranks {
                // An interruption in the barrier delays the rank, but its clock does not show it.
                let entered = -BARRIER * self.uniform();
                let release = BARRIER * self.uniform() + self.interruption();
                barriers.push(release - entered);
                released.push(release);
                arrived.push(release + 0.5 + arrival(rank, luck));
            }
            let last = arrived.iter().copied().fold(0.0, f64::max);
            for rank in 0..self.ranks {
                let noise = OPERATION * (1.0 + 0.05 * self.uniform()) + self.interruption();
                let end = last + noise + transfer(rank, luck);
                by_rank[rank].push(RankIteration {
                    barrier: barriers[rank],
                    total: end - released[rank],
                    operation: end - arrived[rank],
                });
            }
        }
        CaseLateness::new(&by_rank)
    }
}

fn never(_: usize, _: f64) -> f64 {
    0.0
}

/// Returns the ranks that are named, each with its kind.
fn named(case: CaseLateness) -> Vec<(usize, Late)> {
    let found = stragglers(&[case]);
    found.iter().map(|found| (found.rank, found.late)).collect()
}

#[test]
fn in_a_thousand_runs_without_a_straggler_at_most_one_names_somebody() {
    for (ranks, interrupted) in [(2, 0.0), (2, 0.2), (3, 0.2), (4, 0.0), (4, 0.2), (16, 0.1)] {
        let mut false_alarms = 0;
        for seed in 0..1000 {
            let case = Simulated::new(ranks, interrupted, seed).run(100, never, never);
            false_alarms += u32::from(!named(case).is_empty());
        }
        assert!(
            false_alarms <= 1,
            "{false_alarms} of 1000 runs, {ranks} ranks"
        );
    }
}

#[test]
fn a_rank_that_arrives_a_fifth_of_the_operation_late_is_named_and_nobody_else() {
    for (ranks, interrupted) in [(2, 0.0), (3, 0.1), (4, 0.2), (16, 0.05)] {
        for seed in 0..100 {
            let late = |rank, _| if rank == 1 { OPERATION / 5.0 } else { 0.0 };
            let case = Simulated::new(ranks, interrupted, seed).run(200, late, never);
            assert_eq!(
                named(case),
                [(1, Late::Arrival)],
                "{ranks} ranks, seed {seed}"
            );
        }
    }
}

#[test]
fn a_rank_that_is_2_ms_late_in_every_tenth_operation_is_named_in_99_of_100_runs() {
    let mut found = 0;
    for seed in 0..100 {
        let late = |rank, luck| {
            if rank == 2 && luck < 0.1 { 2000.0 } else { 0.0 }
        };
        let case = Simulated::new(4, 0.1, seed).run(400, late, never);
        let named = named(case);
        assert!(named.len() < 2, "{named:?}");
        found += u32::from(named == [(2, Late::Arrival)]);
    }
    assert!(found >= 99, "{found} of 100");
}

#[test]
fn a_rank_that_ends_late_is_told_from_one_that_arrives_late() {
    for ranks in [3, 4, 16] {
        for seed in 0..100 {
            let late = |rank, _| if rank == 0 { OPERATION / 4.0 } else { 0.0 };
            let case = Simulated::new(ranks, 0.05, seed).run(200, never, late);
            assert_eq!(
                named(case),
                [(0, Late::Transfer)],
                "{ranks} ranks, seed {seed}"
            );
        }
    }
}

#[test]
fn half_of_the_ranks_can_be_late_as_those_of_one_of_two_nodes() {
    let late = |rank, _| if rank >= 4 { OPERATION / 5.0 } else { 0.0 };
    let case = Simulated::new(8, 0.0, 1).run(200, late, never);
    let expected: Vec<_> = (4..8).map(|rank| (rank, Late::Arrival)).collect();
    assert_eq!(named(case), expected);
}

#[test]
fn lateness_that_does_not_matter_is_not_named_however_sure_it_is() {
    let slightly = |rank, _| if rank == 1 { OPERATION / 20.0 } else { 0.0 };
    let case = Simulated::new(4, 0.0, 1).run(10_000, slightly, never);
    assert_eq!(named(case), []);
    let rarely = |rank, luck| {
        if rank == 1 && luck < 0.01 {
            2000.0
        } else {
            0.0
        }
    };
    let case = Simulated::new(4, 0.0, 1).run(10_000, rarely, never);
    assert!(case.ranks[1].arrival.p_value < 1e-9);
    assert_eq!(named(case), []);
}

#[test]
fn a_delay_that_the_others_do_not_wait_for_is_none() {
    // The rank looks at its clock late, and is not late.
    let mut by_rank = vec![Vec::new(); 4];
    for _ in 0..100 {
        for (rank, times) in by_rank.iter_mut().enumerate() {
            let before = if rank == 3 { 300.0 } else { 1.0 };
            times.push(RankIteration {
                barrier: 400.0,
                total: 1000.0 + before,
                operation: 1000.0,
            });
        }
    }
    let case = CaseLateness::new(&by_rank);
    assert_eq!(case.ranks[3].arrival.late, 0);
    assert_eq!(named(case), []);
}

#[test]
fn a_case_is_clear_when_everybody_is_named_or_cleared() {
    let quiet = Simulated::new(4, 0.0, 1).run(100, never, never);
    assert!(quiet.is_clear(1));
    let late = |rank, _| if rank == 1 { 300.0 } else { 0.0 };
    assert!(Simulated::new(4, 0.0, 1).run(100, late, never).is_clear(1));
    // A few of 100 are too few to name and too many to clear.
    let seldom = |rank, luck| if rank == 1 && luck < 0.04 { 300.0 } else { 0.0 };
    let case = Simulated::new(4, 0.0, 3).run(100, seldom, never);
    assert!((1..7).contains(&case.ranks[1].arrival.late), "{case:?}");
    assert!(!case.is_clear(1));
}

#[test]
fn who_is_clearly_late_in_each_of_many_cases_is_named_in_all() {
    for seed in 0..50 {
        let late = |rank, luck| {
            if rank == 1 && luck < 0.1 { 2000.0 } else { 0.0 }
        };
        let mut cases = Vec::new();
        while cases.len() < 8 {
            let number = seed * 8 + cases.len() as u64;
            // As the search does: more iterations until it is clear.
            let of_length =
                |length: usize| Simulated::new(4, 0.0, number).run(length * 20, late, never);
            let clear = (5..100).map(of_length).find(|case| case.is_clear(8));
            cases.push(clear.expect("clear after some iterations"));
        }
        assert_eq!(stragglers(&cases).len(), 8, "seed {seed}");
    }
}

#[test]
fn how_late_a_rank_is() {
    let late = |rank, luck| if rank == 1 && luck < 0.5 { 300.0 } else { 0.0 };
    let case = Simulated::new(4, 0.0, 1).run(400, late, never);
    let arrival = case.ranks[1].arrival;
    assert!((150..250).contains(&arrival.late), "{arrival:?}");
    assert!((arrival.typical_us - 300.0).abs() < 1.0, "{arrival:?}");
    let mean = 300.0 * f64::from(arrival.late) / 400.0;
    assert!((arrival.mean_us - mean).abs() < 1.0, "{arrival:?}");
    assert!((1000.0..1350.0).contains(&case.operation_us));
}

#[test]
fn nothing_to_judge() {
    assert_eq!(stragglers(&[]), []);
    let nothing = CaseLateness::new(&[]);
    assert_eq!(nothing, CaseLateness::default());
    let one = RankIteration {
        barrier: 1.0,
        total: 5.0,
        operation: 4.0,
    };
    assert_eq!(named(CaseLateness::new(&[vec![one; 100]])), []);
}

#[test]
fn ranks_that_leave_the_barrier_early_do_not_end_late() {
    // Rank 0 leaves the barrier 300 us before the others, and all end at the same time.
    let mut by_rank = Vec::new();
    for rank in 0..4 {
        let barrier = if rank == 0 { 10.0 } else { 310.0 };
        let operation = if rank == 0 { 1300.0 } else { 1000.0 };
        by_rank.push(vec![
            RankIteration {
                barrier,
                total: operation,
                operation,
            };
            100
        ]);
    }
    assert_eq!(named(CaseLateness::new(&by_rank)), []);
    for times in &mut by_rank[0] {
        times.total += 400.0;
        times.operation += 400.0;
    }
    assert_eq!(named(CaseLateness::new(&by_rank)), [(0, Late::Transfer)]);
}

#[test]
fn the_median_of_the_others() {
    assert_eq!(medians_of_others(&[1.0, 5.0]), [5.0, 1.0]);
    assert_eq!(medians_of_others(&[1.0, 5.0, 5.5]), [5.5, 5.5, 5.0]);
    assert_eq!(
        medians_of_others(&[2.0, 9.0, 3.0, 4.0]),
        [4.0, 3.0, 4.0, 3.0]
    );
    assert_eq!(medians_of_others(&[7.0]), [7.0]);
    assert!(medians_of_others(&[]).is_empty());
}

/// At 5 %, 0.005 is below 0.05 / 4 and 0.01 below 0.05 / 3, but 0.03 is above 0.05 / 2: there it
/// ends, though 0.04 is below 0.05.
#[test]
fn holm_rejects_from_the_smallest_value_until_one_is_too_large() {
    assert_eq!(
        holm(&[0.01, 0.04, 0.03, 0.005], 0.05),
        [true, false, false, true]
    );
    assert!(holm(&[], 0.05).is_empty());
}
