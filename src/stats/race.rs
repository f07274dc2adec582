//! [`RaceTimes`]: candidates are measured block by block, and those that are shown to be slower
//! than another are left out.
//!
//! Racing was introduced by O. Maron and A. W. Moore, "Hoeffding Races" (1993), and in the form
//! with blocks by M. Birattari and others, "A Racing Algorithm for Configuring Metaheuristics"
//! (2002). Successive halving would drop half of the candidates each time; racing keeps those that
//! cannot be told apart, and bounds the probability of losing the fastest.

use std::collections::BTreeMap;

use super::{
    geometric_mean::geometric_mean,
    ratio::{Pair, TimeRatio},
};

/// The fewest blocks after which candidates may be left out: two tell little about the spread.
pub const FEWEST_BLOCKS: u32 = 3;

/// The largest accepted probability of ever leaving out the fastest candidate, and of any interval
/// among several being wrong.
const ERROR: f64 = 0.05;

/// The times of all candidates, each by block.
#[derive(Clone, Debug)]
pub struct RaceTimes {
    /// By candidate, then by block.
    times: Vec<BTreeMap<u32, f64>>,
    /// The step in which times are rounded, in their unit.
    resolution: f64,
}

/// A candidate that is slower than another, both by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowerCandidate {
    /// The slower candidate.
    pub candidate: usize,
    /// The faster candidate for which the difference is surest.
    pub than: usize,
}

impl RaceTimes {
    /// Returns a race of `candidates` candidates before any time is added.
    pub fn new(candidates: usize, resolution: f64) -> RaceTimes {
        RaceTimes {
            times: vec![BTreeMap::new(); candidates],
            resolution,
        }
    }

    /// Adds the time of a candidate in a block.
    pub fn add(&mut self, candidate: usize, block: u32, time: f64) {
        self.times[candidate].insert(block, time);
    }

    /// Returns the number of blocks in which a candidate was measured.
    pub fn blocks(&self, candidate: usize) -> usize {
        self.times[candidate].len()
    }

    /// Returns the geometric mean of a candidate's times; `None` if it has none.
    pub fn mean(&self, candidate: usize) -> Option<f64> {
        let times: Vec<f64> = self.times[candidate].values().copied().collect();
        geometric_mean(&times)
    }

    /// Returns which of the candidates `racing` are slower than another of them after `blocks`
    /// blocks.
    ///
    /// Two are compared by Student's t over the logarithms of their ratios in common blocks,
    /// one-sided. The fastest is lost only if another candidate seems to be faster than it after
    /// some block. The sum of the probabilities of all these errors is at most 5 %: each of the
    /// other candidates gets an equal part of it, and the m-th call gets 1 / (m (m + 1)) of that
    /// part, because these fractions add up to 1.
    pub fn slower(&self, racing: &[usize], blocks: u32) -> Vec<SlowerCandidate> {
        let Some(earlier) = blocks.checked_sub(FEWEST_BLOCKS) else {
            return Vec::new();
        };
        let asked = f64::from(earlier) + 1.0;
        let others = self.times.len().saturating_sub(1).max(1) as f64;
        let level = ERROR / others / (asked * (asked + 1.0));
        let mut slower = Vec::new();
        for &candidate in racing {
            let mut clearest: Option<(f64, usize)> = None;
            for &other in racing.iter().filter(|other| **other != candidate) {
                let Some(chance) = self.chance_of_seeming_slower(candidate, other) else {
                    continue;
                };
                if chance < level && clearest.is_none_or(|(least, _)| chance < least) {
                    clearest = Some((chance, other));
                }
            }
            slower.extend(clearest.map(|(_, than)| SlowerCandidate { candidate, than }));
        }
        slower
    }

    /// Returns the probability that `candidate` seems at least this much slower than `other` if
    /// both are equally fast; `None` if it seems faster, or if they have fewer than
    /// [`FEWEST_BLOCKS`] blocks in common.
    fn chance_of_seeming_slower(&self, candidate: usize, other: usize) -> Option<f64> {
        let pairs = self.pairs(candidate, other);
        if pairs.len() < FEWEST_BLOCKS as usize {
            return None;
        }
        let ratio = TimeRatio::paired(&pairs, 1.0 - ERROR, self.resolution)?;
        // Half of a two-sided probability is the one-sided one.
        (ratio.ratio > 1.0).then_some(ratio.p_value / 2.0)
    }

    /// Returns the ratio of a candidate's time to that of `reference`; `None` if fewer than two
    /// blocks have both. Its interval is wide enough that `together` such intervals all hold with a
    /// probability of 95 % (Bonferroni).
    pub fn ratio(&self, candidate: usize, reference: usize, together: usize) -> Option<TimeRatio> {
        let confidence = 1.0 - ERROR / together.max(1) as f64;
        TimeRatio::paired(
            &self.pairs(candidate, reference),
            confidence,
            self.resolution,
        )
    }

    /// Returns the times of the blocks that both have.
    fn pairs(&self, candidate: usize, reference: usize) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (block, time) in &self.times[candidate] {
            if let Some(reference) = self.times[reference].get(block) {
                pairs.push(Pair {
                    time: *time,
                    reference: *reference,
                });
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;

    /// The resolution of the times, which are around 1000.
    const RESOLUTION: f64 = 0.5;

    /// A simulated race of candidates that take `effects` times as long.
    struct Simulation {
        effects: Vec<f64>,
        /// Relative standard deviation of a time. That of a block, which all candidates share, is
        /// ten times as large.
        noise: f64,
        blocks: u32,
    }

    impl Simulation {
        fn normal(random: &mut ChaCha8Rng) -> f64 {
            let uniform = (f64::from(random.next_u32()) + 0.5) / 2f64.powi(32);
            Normal::standard().inverse_cdf(uniform)
        }

        /// Runs a race until its last block. Returns after how many blocks each candidate was left
        /// out, and the times.
        fn run(&self, seed: u64) -> (Vec<Option<u32>>, RaceTimes) {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut times = RaceTimes::new(self.effects.len(), RESOLUTION);
            let mut left_out = vec![None; self.effects.len()];
            for block in 0..self.blocks {
                let pace = (10.0 * self.noise * Simulation::normal(&mut random)).exp();
                let mut racing = Vec::new();
                for (candidate, effect) in self.effects.iter().enumerate() {
                    let noise = (self.noise * Simulation::normal(&mut random)).exp();
                    if left_out[candidate].is_none() {
                        times.add(candidate, block, 1000.0 * effect * pace * noise);
                        racing.push(candidate);
                    }
                }
                for slower in times.slower(&racing, block + 1) {
                    left_out[slower.candidate] = Some(block + 1);
                }
            }
            (left_out, times)
        }
    }

    /// The hardest case is the first: all are equally fast, so any of them may be taken for the
    /// fastest.
    #[test]
    fn the_fastest_is_lost_in_at_most_5_of_100_races() {
        for effects in [vec![1.0; 6], vec![1.0, 1.001, 1.002, 1.05, 1.05, 1.3]] {
            let simulation = Simulation {
                effects,
                noise: 0.02,
                blocks: 15,
            };
            let lost = (0..200).filter(|seed| simulation.run(*seed).0[0].is_some());
            let lost = lost.count();
            assert!(lost <= 10, "{lost} of 200");
        }
    }

    /// The negative control of the test before: a level of 5 % after each block loses the fastest
    /// far more often.
    #[test]
    fn asking_after_each_block_at_5_percent_loses_the_fastest() {
        let simulation = Simulation {
            effects: vec![1.0; 6],
            noise: 0.02,
            blocks: 15,
        };
        let is_lost = |seed: &u64| {
            let (_, all) = simulation.run(*seed);
            (FEWEST_BLOCKS..=15).any(|blocks| {
                let mut times = all.clone();
                for of_candidate in &mut times.times {
                    of_candidate.retain(|block, _| *block < blocks);
                }
                (1..6).any(|other| {
                    let chance = times.chance_of_seeming_slower(0, other);
                    chance.is_some_and(|chance| chance < ERROR)
                })
            })
        };
        let lost = (0..100).filter(is_lost).count();
        assert!(lost > 30, "{lost} of 100");
    }

    #[test]
    fn what_is_clearly_slower_is_left_out_early_and_what_is_alike_stays() {
        let simulation = Simulation {
            effects: vec![1.0, 1.0, 1.2, 1.5],
            noise: 0.02,
            blocks: 8,
        };
        let (mut early, mut kept) = (0, 0);
        for seed in 0..100 {
            let (left_out, times) = simulation.run(seed);
            early += usize::from(left_out[2].is_some() && left_out[3].is_some());
            kept += usize::from(left_out[0].is_none() && left_out[1].is_none());
            // No time is spent on what was left out.
            if let Some(blocks) = left_out[3] {
                assert_eq!(times.blocks(3), blocks as usize);
            }
        }
        assert!(early >= 95, "{early} of 100");
        assert!(kept >= 95, "{kept} of 100");
    }

    /// All intervals hold together, and so does the one of whichever candidate seems best.
    #[test]
    fn intervals_hold_for_all_candidates_together() {
        let simulation = Simulation {
            effects: vec![1.0, 1.0, 0.98, 1.01, 0.97, 1.03],
            noise: 0.02,
            blocks: 8,
        };
        let holds = |seed: &u64| {
            let mut random = ChaCha8Rng::seed_from_u64(*seed);
            let mut times = RaceTimes::new(6, RESOLUTION);
            for block in 0..simulation.blocks {
                for (candidate, effect) in simulation.effects.iter().enumerate() {
                    let noise = (0.02 * Simulation::normal(&mut random)).exp();
                    times.add(candidate, block, 1000.0 * effect * noise);
                }
            }
            (1..6).all(|candidate| {
                let ratio = times.ratio(candidate, 0, 5).expect("blocks");
                let truth = simulation.effects[candidate];
                ratio.low <= truth && truth <= ratio.high
            })
        };
        let held = (0..200).filter(holds).count();
        assert!(held >= 186, "{held} of 200");
    }

    #[test]
    fn too_few_blocks_and_blocks_that_are_missing_tell_nothing() {
        let mut times = RaceTimes::new(2, RESOLUTION);
        for block in 0..2 {
            times.add(0, block, 100.0);
            times.add(1, block, 900.0);
        }
        assert!(times.slower(&[0, 1], 2).is_empty());
        times.add(0, 2, 100.0);
        assert!(times.slower(&[0, 1], 3).is_empty(), "two in common");
        assert_eq!((times.blocks(0), times.blocks(1)), (3, 2));
        times.add(1, 2, 900.0);
        let slower = SlowerCandidate {
            candidate: 1,
            than: 0,
        };
        assert_eq!(times.slower(&[0, 1], 3), [slower]);
        assert!(times.slower(&[1], 3).is_empty());
        assert!(
            times
                .mean(1)
                .is_some_and(|mean| (mean - 900.0).abs() < 1e-9)
        );
        let none = RaceTimes::new(1, RESOLUTION);
        assert_eq!((none.mean(0), none.ratio(0, 0, 1)), (None, None));
    }
}
