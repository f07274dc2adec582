//! Which variants differ from the reference, case by case. Pure.

use std::cmp::Ordering;

use crate::stats::{Pair, TimeRatio, discoveries};

/// The confidence of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

/// The share of false differences among all that are claimed.
const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// The step in which times are recorded, in µs.
const RESOLUTION: f64 = 0.01;

/// The time of a variant in one block, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BlockTime {
    /// The number of the block.
    pub(super) block: u32,
    /// The time.
    pub(super) time: f64,
}

/// The times of one case by variant, each sorted by block, with one time per block.
pub(super) type CaseTimes = Vec<Vec<BlockTime>>;

/// A case whose variants are judged.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JudgedCase {
    /// The times.
    pub(super) times: CaseTimes,
    /// Whether each variant can differ from the reference in this case at all.
    pub(super) can_differ: Vec<bool>,
}

/// The roles of the variants, as indices into [`CaseTimes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    /// The variant that the others are compared with.
    pub(super) reference: usize,
    /// The same as the reference under another label. Its distance from the reference is noise.
    pub(super) control: Option<usize>,
    /// Whether a block is the same for all variants, so that times are compared within blocks.
    pub(super) is_paired: bool,
}

/// What is concluded about a variant in one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is faster than the reference.
    Better,
    /// It is slower than the reference.
    Worse,
    /// A difference, if there is one, is too small for this number of blocks.
    NotShown,
    /// It cannot differ from the reference, so what differs is noise.
    CannotDiffer,
    /// Fewer than two blocks have both times, or one of the two has fewer than two, so nothing is
    /// known about the spread.
    TooFewBlocks,
}

/// A variant against the reference in one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    /// The ratio of times to the reference; `None` if there are too few blocks.
    pub(super) ratio: Option<TimeRatio>,
    /// What is concluded.
    pub(super) verdict: Verdict,
}

/// Compares each variant of each case with the reference, in the order of `cases` and of the
/// variants.
///
/// A variant differs only if it differs from both copies of the reference, in the same direction.
/// Of all differences claimed, one in twenty may be false.
pub(super) fn judge(cases: &[JudgedCase], roles: Roles) -> Vec<Vec<Comparison>> {
    let mut p_values = Vec::new();
    for case in cases {
        for variant in judged(case, roles) {
            p_values.push(p_value(&case.times, variant, roles));
        }
    }
    let mut counts = discoveries(&p_values, FALSE_DISCOVERY_RATE).into_iter();
    let mut comparisons = Vec::new();
    for case in cases {
        let mut of_case: Vec<Comparison> = Vec::new();
        for variant in 0..case.times.len() {
            let ratio = ratio(&case.times, variant, roles.reference, roles);
            let verdict = Verdict::CannotDiffer;
            of_case.push(Comparison { ratio, verdict });
        }
        for variant in judged(case, roles) {
            let differs = counts.next().unwrap_or(false);
            of_case[variant].verdict = verdict(of_case[variant].ratio, differs);
        }
        comparisons.push(of_case);
    }
    comparisons
}

/// Returns the variants that are judged: those that can differ, without the two copies of the
/// reference.
fn judged(case: &JudgedCase, roles: Roles) -> Vec<usize> {
    let is_copy = |variant| variant == roles.reference || Some(variant) == roles.control;
    let all = 0..case.times.len();
    all.filter(|variant| case.can_differ[*variant] && !is_copy(*variant))
        .collect()
}

fn verdict(ratio: Option<TimeRatio>, differs: bool) -> Verdict {
    match ratio {
        None => Verdict::TooFewBlocks,
        Some(_) if !differs => Verdict::NotShown,
        Some(ratio) if ratio.ratio < 1.0 => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

/// Returns the probability of such a distance from both copies of the reference without a
/// difference. It is 1 if the variant lies between the two.
fn p_value(times: &CaseTimes, variant: usize, roles: Roles) -> f64 {
    let Some(first) = ratio(times, variant, roles.reference, roles) else {
        return 1.0;
    };
    let Some(control) = roles.control else {
        return first.p_value;
    };
    match ratio(times, variant, control, roles) {
        Some(second) if (first.ratio < 1.0) == (second.ratio < 1.0) => {
            first.p_value.max(second.p_value)
        }
        _ => 1.0,
    }
}

fn ratio(times: &CaseTimes, variant: usize, reference: usize, roles: Roles) -> Option<TimeRatio> {
    let (times, references) = (&times[variant], &times[reference]);
    if roles.is_paired {
        return TimeRatio::paired(&pairs(times, references), CONFIDENCE, RESOLUTION);
    }
    let times: Vec<f64> = times.iter().map(|block| block.time).collect();
    let references: Vec<f64> = references.iter().map(|block| block.time).collect();
    TimeRatio::unpaired(&times, &references, CONFIDENCE, RESOLUTION)
}

/// Returns the times of the blocks that both have.
fn pairs(times: &[BlockTime], references: &[BlockTime]) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(times.len());
    let mut references = references.iter().peekable();
    for BlockTime { block, time } in times {
        while let Some(reference) = references.peek() {
            match reference.block.cmp(block) {
                Ordering::Less => {
                    references.next();
                }
                Ordering::Equal => {
                    pairs.push(Pair {
                        time: *time,
                        reference: reference.time,
                    });
                    break;
                }
                Ordering::Greater => break,
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;
    use crate::stats::BlockOrder;

    const ROLES: Roles = Roles {
        reference: 0,
        control: Some(1),
        is_paired: true,
    };

    /// Runs without common blocks.
    const UNPAIRED: Roles = Roles {
        reference: 0,
        control: None,
        is_paired: false,
    };

    /// A simulated experiment: the reference, its control, and variants that take `effects` times
    /// as long.
    struct Experiment {
        effects: Vec<f64>,
        blocks: u32,
        cases: usize,
        /// Relative standard deviation of a time.
        noise: f64,
        /// How much longer the first step of each block takes.
        first_step: f64,
        /// How much longer each step takes than the one before.
        drift: f64,
        is_order_balanced: bool,
    }

    const QUIET: Experiment = Experiment {
        effects: Vec::new(),
        blocks: 10,
        cases: 40,
        noise: 0.01,
        first_step: 1.0,
        drift: 1.0,
        is_order_balanced: true,
    };

    impl Experiment {
        fn cases(&self, seed: u64) -> Vec<JudgedCase> {
            let normal = Normal::standard();
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut order = BlockOrder::new(self.effects.len(), seed);
            let untimed = comparable(vec![Vec::new(); self.effects.len()]);
            let mut cases = vec![untimed; self.cases];
            let mut pace = 1.0;
            for block in 0..self.blocks {
                let balanced = order.next_block();
                let fixed = (0..self.effects.len()).collect();
                let steps = if self.is_order_balanced {
                    balanced
                } else {
                    fixed
                };
                for (position, step) in steps.into_iter().enumerate() {
                    pace *= self.drift;
                    let start = if position == 0 { self.first_step } else { 1.0 };
                    for (index, case) in cases.iter_mut().enumerate() {
                        let uniform = (random.next_u32() as f64 + 0.5) / 2f64.powi(32);
                        let noise = (self.noise * normal.inverse_cdf(uniform)).exp();
                        let base = 100.0 * (1.0 + index as f64);
                        let time = base * self.effects[step] * pace * start * noise;
                        case.times[step].push(BlockTime { block, time });
                    }
                }
            }
            cases
        }

        /// Returns how many differences are claimed in `runs` experiments, and of how many.
        fn claims(&self, runs: u64, roles: Roles) -> (usize, usize) {
            let (mut claims, mut all) = (0, 0);
            let first = if roles.control.is_some() { 2 } else { 1 };
            for seed in 0..runs {
                for case in judge(&self.cases(seed), roles) {
                    for comparison in &case[first..] {
                        all += 1;
                        let differs =
                            matches!(comparison.verdict, Verdict::Better | Verdict::Worse);
                        claims += usize::from(differs);
                    }
                }
            }
            (claims, all)
        }
    }

    fn comparable(times: CaseTimes) -> JudgedCase {
        let can_differ = vec![true; times.len()];
        JudgedCase { times, can_differ }
    }

    #[test]
    fn identical_runs_rarely_differ() {
        let same = Experiment {
            effects: vec![1.0; 3],
            noise: 0.05,
            ..QUIET
        };
        let (claims, all) = same.claims(200, ROLES);
        assert!(claims * 20 <= all, "{claims} of {all}");
    }

    #[test]
    fn three_percent_are_found_in_one_percent_of_noise() {
        let slower = Experiment {
            effects: vec![1.0, 1.0, 1.03],
            ..QUIET
        };
        let (claims, all) = slower.claims(50, ROLES);
        assert!(claims * 10 >= all * 9, "{claims} of {all}");
    }

    #[test]
    fn identical_unpaired_runs_rarely_differ() {
        for (blocks, noise) in [(3, 0.05), (10, 0.01)] {
            let same = Experiment {
                effects: vec![1.0; 2],
                blocks,
                noise,
                ..QUIET
            };
            let (claims, all) = same.claims(200, UNPAIRED);
            assert_eq!(all, 200 * 40, "200 pairs of runs, 40 cases each");
            assert!(claims * 20 <= all, "{claims} of {all}");
        }
    }

    #[test]
    fn three_percent_between_unpaired_runs_are_found_in_one_percent_of_noise() {
        let slower = Experiment {
            effects: vec![1.0, 1.03],
            ..QUIET
        };
        let (claims, all) = slower.claims(50, UNPAIRED);
        assert!(claims * 10 >= all * 9, "{claims} of {all}");
    }

    #[test]
    fn unpaired_runs_may_have_different_numbers_of_times() {
        let times = |times: &[f64]| -> Vec<BlockTime> {
            let numbered = times.iter().zip(0..);
            numbered
                .map(|(time, block)| BlockTime { block, time: *time })
                .collect()
        };
        let case = comparable(vec![
            times(&[10.0, 10.1, 9.9, 10.0]),
            times(&[20.0, 20.1]),
            times(&[20.0]),
            times(&[]),
        ]);
        let verdicts: Vec<Verdict> = judge(&[case], UNPAIRED)[0]
            .iter()
            .map(|one| one.verdict)
            .collect();
        let expected = [Verdict::Worse, Verdict::TooFewBlocks, Verdict::TooFewBlocks];
        assert_eq!(verdicts[1..], expected);
    }

    #[test]
    fn only_blocks_that_both_have_are_paired() {
        let blocks = |numbers: &[u32]| -> Vec<BlockTime> {
            let time = |block: &u32| BlockTime {
                block: *block,
                time: f64::from(*block),
            };
            numbers.iter().map(time).collect()
        };
        let pairs = pairs(&blocks(&[1, 2, 4, 7]), &blocks(&[2, 3, 4, 5, 6]));
        let common: Vec<f64> = pairs.iter().map(|pair| pair.reference).collect();
        assert_eq!(common, [2.0, 4.0]);
    }

    #[test]
    fn neither_a_slow_first_step_nor_a_drift_becomes_an_effect() {
        for (first_step, drift) in [(1.3, 1.0), (1.0, 1.004)] {
            let disturbed = |is_order_balanced| Experiment {
                effects: vec![1.0; 6],
                blocks: 12,
                first_step,
                drift,
                is_order_balanced,
                ..QUIET
            };
            let (claims, all) = disturbed(true).claims(20, ROLES);
            assert!(claims * 20 <= all, "{claims} of {all}");

            // In a fixed order each is taken for an effect of the steps, without a control pair.
            let mut fooled = 0;
            let mut all = 0;
            for seed in 0..20 {
                let roles = Roles {
                    control: None,
                    ..ROLES
                };
                for case in judge(&disturbed(false).cases(seed), roles) {
                    all += 1;
                    fooled += usize::from(case[5].verdict != Verdict::NotShown);
                }
            }
            assert!(fooled * 10 > all * 9, "{fooled} of {all}");
        }
    }

    #[test]
    fn a_variant_between_the_two_copies_does_not_differ() {
        let steady = |time: f64| -> Vec<BlockTime> {
            (0..5).map(|block| BlockTime { block, time }).collect()
        };
        let times = vec![steady(10.0), steady(12.0), steady(11.0), steady(14.0)];
        let cases = [comparable(times)];
        let verdicts: Vec<Verdict> = judge(&cases, ROLES)[0]
            .iter()
            .map(|one| one.verdict)
            .collect();
        assert_eq!(verdicts[2..], [Verdict::NotShown, Verdict::Worse]);
    }

    #[test]
    fn one_block_tells_nothing() {
        let once = |time: f64| vec![BlockTime { block: 0, time }];
        let times = vec![once(10.0), once(10.0), once(1.0), Vec::new()];
        let of_case = &judge(&[comparable(times)], ROLES)[0];
        assert!(
            of_case[2..]
                .iter()
                .all(|one| one.verdict == Verdict::TooFewBlocks)
        );
    }

    #[test]
    fn what_cannot_differ_is_not_judged() {
        let steady = |time: f64| -> Vec<BlockTime> {
            (0..5).map(|block| BlockTime { block, time }).collect()
        };
        let mut case = comparable(vec![steady(10.0), steady(10.0), steady(14.0)]);
        case.can_differ[2] = false;
        assert_eq!(judge(&[case], ROLES)[0][2].verdict, Verdict::CannotDiffer);
    }
}
