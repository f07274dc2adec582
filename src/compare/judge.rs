//! Which variants differ from the reference, case by case. Pure.

use std::collections::BTreeMap;

use crate::stats::{Pair, PairedRatio, discoveries};

/// The confidence of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

/// The share of false differences among all that are claimed.
const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// The step in which times are recorded, in µs.
const RESOLUTION: f64 = 0.01;

/// The times of one case in µs: by variant, then by block.
pub(super) type CaseTimes = Vec<BTreeMap<u32, f64>>;

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
    /// Fewer than two blocks have both times, so nothing is known about the spread.
    TooFewBlocks,
}

/// A variant against the reference in one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    /// The ratio of times to the reference; `None` if there are too few blocks.
    pub(super) ratio: Option<PairedRatio>,
    /// What is concluded.
    pub(super) verdict: Verdict,
}

/// Compares each variant of each case with the reference, in the order of `cases` and of the variants.
///
/// A variant differs only if it differs from both copies of the reference, in the same direction. Of all differences
/// claimed, one in twenty may be false.
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
            let ratio = ratio(&case.times, variant, roles.reference);
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

/// Returns the variants that are judged: those that can differ, without the two copies of the reference.
fn judged(case: &JudgedCase, roles: Roles) -> Vec<usize> {
    let is_copy = |variant| variant == roles.reference || Some(variant) == roles.control;
    let all = 0..case.times.len();
    all.filter(|variant| case.can_differ[*variant] && !is_copy(*variant))
        .collect()
}

fn verdict(ratio: Option<PairedRatio>, differs: bool) -> Verdict {
    match ratio {
        None => Verdict::TooFewBlocks,
        Some(_) if !differs => Verdict::NotShown,
        Some(ratio) if ratio.ratio < 1.0 => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

/// Returns the probability of such a distance from both copies of the reference without a difference. It is 1 if the
/// variant lies between the two.
fn p_value(times: &CaseTimes, variant: usize, roles: Roles) -> f64 {
    let Some(first) = ratio(times, variant, roles.reference) else {
        return 1.0;
    };
    let Some(control) = roles.control else {
        return first.p_value;
    };
    match ratio(times, variant, control) {
        Some(second) if (first.ratio < 1.0) == (second.ratio < 1.0) => {
            first.p_value.max(second.p_value)
        }
        _ => 1.0,
    }
}

fn ratio(times: &CaseTimes, variant: usize, reference: usize) -> Option<PairedRatio> {
    let mut pairs = Vec::new();
    for (block, time) in &times[variant] {
        if let Some(reference) = times[reference].get(block) {
            pairs.push(Pair {
                time: *time,
                reference: *reference,
            });
        }
    }
    PairedRatio::new(&pairs, CONFIDENCE, RESOLUTION)
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
    };

    /// A simulated experiment: the reference, its control, and variants that take `effects` times as long.
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
            let untimed = comparable(vec![BTreeMap::new(); self.effects.len()]);
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
                        case.times[step].insert(block, time);
                    }
                }
            }
            cases
        }

        /// Returns how many differences are claimed in `runs` experiments, and of how many.
        fn claims(&self, runs: u64) -> (usize, usize) {
            let (mut claims, mut all) = (0, 0);
            for seed in 0..runs {
                for case in judge(&self.cases(seed), ROLES) {
                    for comparison in &case[2..] {
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
        let (claims, all) = same.claims(200);
        assert!(claims * 20 <= all, "{claims} of {all}");
    }

    #[test]
    fn three_percent_are_found_in_one_percent_of_noise() {
        let slower = Experiment {
            effects: vec![1.0, 1.0, 1.03],
            ..QUIET
        };
        let (claims, all) = slower.claims(50);
        assert!(claims * 10 >= all * 9, "{claims} of {all}");
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
            let (claims, all) = disturbed(true).claims(20);
            assert!(claims * 20 <= all, "{claims} of {all}");

            // In a fixed order each is taken for an effect of the steps, without a control pair.
            let mut fooled = 0;
            let mut all = 0;
            for seed in 0..20 {
                let roles = Roles {
                    reference: 0,
                    control: None,
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
        let steady = |time: f64| (0..5).map(|block| (block, time)).collect();
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
        let once = |time: f64| BTreeMap::from([(0, time)]);
        let times = vec![once(10.0), once(10.0), once(1.0), BTreeMap::new()];
        let of_case = &judge(&[comparable(times)], ROLES)[0];
        assert!(
            of_case[2..]
                .iter()
                .all(|one| one.verdict == Verdict::TooFewBlocks)
        );
    }

    #[test]
    fn what_cannot_differ_is_not_judged() {
        let steady = |time: f64| (0..5).map(|block| (block, time)).collect();
        let mut case = comparable(vec![steady(10.0), steady(10.0), steady(14.0)]);
        case.can_differ[2] = false;
        assert_eq!(judge(&[case], ROLES)[0][2].verdict, Verdict::CannotDiffer);
    }
}
