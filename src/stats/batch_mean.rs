//! [`BatchMean`]: the mean of times that were measured one after another, with an interval that is
//! right although they are correlated.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::welch::UncertainMean;

/// The mean of consecutive blocks, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchMean {
    /// The mean of all blocks.
    pub mean: f64,
    /// Half the width of the interval, in the unit of the times.
    pub half_width: f64,
    /// The standard error of the mean.
    pub error: f64,
    /// The degrees of freedom of Student's t.
    pub freedom: f64,
}

/// The number of batches stays below this: with this many blocks, neighbouring blocks are merged.
const MOST_BATCHES: usize = 20;

/// The largest correlation of neighbouring batches that is used. A larger estimate means that the
/// series is too short to estimate it.
const MOST_CORRELATION: f64 = 0.9;

impl BatchMean {
    /// Returns the mean of `blocks`, each the mean time of equally many operations, in the order in
    /// which they ran; `None` for fewer than two blocks.
    ///
    /// Operations that run close together take similar times, so the mean of many spreads more than
    /// their number suggests. The method is that of batch means (R. W. Conway, "Some Tactical
    /// Problems in Digital Simulation", 1963): the interval is that of Student's t over the means
    /// of batches, which depend less on each other. Batches grow with the series: from ten blocks
    /// on there are 10 to 19 batches (as in A. M. Law and J. S. Carson, "A Sequential Procedure for
    /// Determining the Length of a Steady-State Simulation", 1979). If neighbouring batches still
    /// have a correlation r, the interval is widened by the root of (1 + r) / (1 - r): n such
    /// batches tell as much about the mean as n (1 - r) / (1 + r) independent ones (G. V. Bayley
    /// and J. M. Hammersley, "The 'Effective' Number of Independent Observations in an
    /// Autocorrelated Time Series", 1946).
    ///
    /// The first blocks, if they do not fill a batch, count for the mean but not for its spread.
    pub fn new(blocks: &[f64], confidence: f64) -> Option<BatchMean> {
        let batches = batches(blocks);
        let count = batches.len() as f64;
        let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
        let center = mean(&batches);
        let squares: f64 = batches.iter().map(|batch| (batch - center).powi(2)).sum();
        let correlation = correlation(&batches, center, squares);
        let inflation = (1.0 + correlation) / (1.0 - correlation);
        let error = (squares / (count - 1.0) / count * inflation).sqrt();
        Some(BatchMean {
            mean: mean(blocks),
            half_width: student.inverse_cdf(0.5 + confidence / 2.0) * error,
            error,
            freedom: count - 1.0,
        })
    }

    /// Returns the mean with its error.
    pub(super) fn uncertain(&self) -> UncertainMean {
        UncertainMean {
            mean: self.mean,
            variance: self.error.powi(2),
            freedom: self.freedom,
        }
    }

    /// Returns the half width relative to the mean: 0.01 for ±1 %.
    pub fn relative(&self) -> f64 {
        if self.half_width == 0.0 {
            return 0.0;
        }
        self.half_width / self.mean
    }
}

/// Returns the means of batches of equally many neighbouring blocks.
fn batches(blocks: &[f64]) -> Vec<f64> {
    let mut length = 1;
    while blocks.len() / length >= MOST_BATCHES {
        length *= 2;
    }
    let left_over = blocks.len() % length;
    blocks[left_over..].chunks(length).map(mean).collect()
}

/// Returns the correlation of neighbouring `values`, from 0 to [`MOST_CORRELATION`]. The usual
/// estimate is -1/n on average for n independent values, so 1/n is added. `center` is the mean of
/// the values, `squares` the sum of their squared distances from it.
fn correlation(values: &[f64], center: f64, squares: f64) -> f64 {
    if squares == 0.0 {
        return 0.0;
    }
    let products: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - center) * (pair[1] - center))
        .sum();
    let unbiased = products / squares + 1.0 / values.len() as f64;
    unbiased.clamp(0.0, MOST_CORRELATION)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };

    use super::*;

    /// Returns a number that is nearly normal, with a standard deviation of 1: the sum of twelve
    /// uniform ones.
    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            sum += f64::from(random.next_u32()) / f64::from(u32::MAX);
        }
        sum
    }

    /// Times around 100 with a deviation of 2, each of which keeps `memory` of the deviation of the
    /// one before.
    struct Noise {
        random: ChaCha8Rng,
        memory: f64,
        deviation: f64,
    }

    impl Noise {
        fn new(seed: u64, memory: f64) -> Noise {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let deviation = normal(&mut random);
            Noise {
                random,
                memory,
                deviation,
            }
        }

        fn next(&mut self) -> f64 {
            let fresh = (1.0 - self.memory.powi(2)).sqrt() * normal(&mut self.random);
            self.deviation = self.memory * self.deviation + fresh;
            100.0 + 2.0 * self.deviation
        }
    }

    /// By hand: the mean of 1, 4, 2, 3 is 2.5, its standard error sqrt(5/3)/2 = 0.645497, and
    /// neighbours are not positively correlated. Student's t with three degrees of freedom is
    /// 3.182446 at 97.5 %.
    #[test]
    fn an_example_by_hand() {
        let mean = BatchMean::new(&[1.0, 4.0, 2.0, 3.0], 0.95).expect("four blocks");
        assert_eq!(mean.mean, 2.5);
        assert!((mean.half_width - 3.182_446_305 * 0.645_497_224).abs() < 1e-6);
        assert!((mean.relative() - mean.half_width / 2.5).abs() < 1e-12);
        assert_eq!(BatchMean::new(&[1.0], 0.95), None);
        assert_eq!(BatchMean::new(&[], 0.95), None);
        let same = BatchMean::new(&[5.0; 30], 0.95).expect("blocks");
        assert_eq!((same.mean, same.relative()), (5.0, 0.0));
    }

    /// The products of neighbours of 1, 2, 3, 4 add up to 1.25 and the squares to 5, so r is 1/4 +
    /// 1/4, and the interval is wider by the root of 3.
    #[test]
    fn neighbours_that_are_alike_widen_the_interval() {
        let rising = BatchMean::new(&[1.0, 2.0, 3.0, 4.0], 0.95).expect("four blocks");
        let mixed = BatchMean::new(&[1.0, 4.0, 2.0, 3.0], 0.95).expect("four blocks");
        assert!((rising.half_width / mixed.half_width - 3.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn batches_are_as_long_as_their_number_allows() {
        let series: Vec<f64> = (0..43).map(f64::from).collect();
        assert_eq!(batches(&series[..19]).len(), 19);
        assert_eq!(batches(&series[..20])[..2], [0.5, 2.5]);
        // The first three are left over.
        assert_eq!(batches(&series).len(), 10);
        assert_eq!(batches(&series)[0], 4.5);
    }

    /// How many of 1,000 intervals contain the true mean, if each series ends as soon as its
    /// interval is narrow enough.
    fn hits(memory: f64, wanted: f64, interval: fn(&[f64]) -> BatchMean) -> usize {
        let mut hits = 0;
        for seed in 0..1000 {
            let mut noise = Noise::new(seed, memory);
            let mut blocks: Vec<f64> = (0..10).map(|_| noise.next()).collect();
            let mut found = interval(&blocks);
            while found.relative() > wanted && blocks.len() < 2000 {
                for _ in 0..blocks.len() / 4 {
                    blocks.push(noise.next());
                }
                found = interval(&blocks);
            }
            hits += usize::from((found.mean - 100.0).abs() <= found.half_width);
        }
        hits
    }

    /// The interval that takes the blocks for independent.
    fn without_batches(blocks: &[f64]) -> BatchMean {
        let count = blocks.len() as f64;
        let center = mean(blocks);
        let squares: f64 = blocks.iter().map(|block| (block - center).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        BatchMean {
            mean: center,
            half_width: 2.0 * error,
            error,
            freedom: count - 1.0,
        }
    }

    #[test]
    fn intervals_are_right_though_the_series_ends_when_they_are_narrow() {
        let batched = |blocks: &[f64]| BatchMean::new(blocks, 0.95).expect("several blocks");
        let independent = hits(0.0, 0.005, batched);
        assert!(independent >= 920, "{independent} of 1000");
        let alike = hits(0.5, 0.005, batched);
        assert!(alike >= 880, "{alike} of 1000");
        let fooled = hits(0.5, 0.005, without_batches);
        assert!(fooled < 800, "{fooled} of 1000");
    }
}
