//! [`RankTimes`]: the times of the single ranks of a case, and their distribution.

use serde::{Deserialize, Serialize};

use super::iteration_stats::{IterationStats, percentile};
use crate::units::Micros;

/// The time of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// Number among all ranks of the run.
    pub rank: u32,
    /// Time of one operation on this rank. GPUs of one thread start and end together, so they share
    /// the thread's time.
    pub time: Micros,
    /// Statistics of the iterations of the rank's process; `None` if they were not timed.
    pub iterations: Option<IterationStats>,
}

/// The distribution of a case's time over its ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTimes {
    /// The median.
    pub p50: Micros,
    /// 95th percentile.
    pub p95: Micros,
    /// 99th percentile.
    pub p99: Micros,
    /// The longest.
    pub max: Micros,
    /// Coefficient of variation: the standard deviation in percent of the mean.
    pub variation: f64,
    /// The ranks in order; empty if they are not at hand, as in a record of an earlier run.
    pub ranks: Vec<RankTime>,
}

impl RankTimes {
    /// Returns the distribution over `ranks`; `None` for fewer than two, which have none.
    ///
    /// Percentiles are by nearest rank: the shortest time that at least 50, 95 or 99 % of the ranks
    /// do not exceed, always a time that was measured (definition 1 of R. J. Hyndman and Y. Fan,
    /// "Sample Quantiles in Statistical Packages", 1996). The standard deviation is that of all
    /// ranks, not an estimate from a sample.
    pub fn new(ranks: Vec<RankTime>) -> Option<RankTimes> {
        if ranks.len() < 2 {
            return None;
        }
        let mut sorted: Vec<f64> = ranks.iter().map(|rank| rank.time.0).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let variance = sorted.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        let variation = if mean > 0.0 {
            100.0 * variance.sqrt() / mean
        } else {
            0.0
        };
        Some(RankTimes {
            p50: Micros(percentile(&sorted, 50)),
            p95: Micros(percentile(&sorted, 95)),
            p99: Micros(percentile(&sorted, 99)),
            max: Micros(sorted[sorted.len() - 1]),
            variation,
            ranks,
        })
    }

    /// Returns the distribution without the single ranks.
    pub fn without_ranks(&self) -> RankTimes {
        RankTimes {
            ranks: Vec::new(),
            ..*self
        }
    }

    /// Returns the positions of the ranks that took shortest and longest; `None` if the ranks are
    /// not at hand.
    pub fn extremes(&self) -> Option<(usize, usize)> {
        let positions = || 0..self.ranks.len();
        let by_time = |a: &usize, b: &usize| {
            let (a, b) = (self.ranks[*a].time.0, self.ranks[*b].time.0);
            a.total_cmp(&b)
        };
        let shortest = positions().min_by(by_time)?;
        let longest = positions().max_by(by_time)?;
        Some((shortest, longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(times: impl IntoIterator<Item = f64>) -> Vec<RankTime> {
        let mut ranks = Vec::new();
        for (rank, time) in times.into_iter().enumerate() {
            ranks.push(RankTime {
                rank: rank as u32,
                time: Micros(time),
                iterations: None,
            });
        }
        ranks
    }

    #[test]
    fn percentiles_over_ranks_are_times_of_ranks() {
        let hundred = RankTimes::new(ranks((1..=100).map(f64::from))).expect("ranks");
        assert_eq!(
            (hundred.p50, hundred.p95, hundred.p99, hundred.max),
            (Micros(50.0), Micros(95.0), Micros(99.0), Micros(100.0))
        );
        // The variance of 1 to n is (n² - 1) / 12.
        let expected = 100.0 * (9999.0_f64 / 12.0).sqrt() / 50.5;
        assert!((hundred.variation - expected).abs() < 1e-9);
        assert_eq!(hundred.extremes(), Some((0, 99)));
        assert_eq!(hundred.without_ranks().extremes(), None);

        let two = RankTimes::new(ranks([3.0, 1.0])).expect("ranks");
        assert_eq!(
            (two.p50, two.p95, two.p99, two.max),
            (Micros(1.0), Micros(3.0), Micros(3.0), Micros(3.0))
        );
        assert_eq!((two.variation, two.extremes()), (50.0, Some((1, 0))));
    }

    #[test]
    fn one_rank_has_no_distribution() {
        assert_eq!(RankTimes::new(ranks([1.0])), None);
        assert_eq!(RankTimes::new(Vec::new()), None);
    }
}
