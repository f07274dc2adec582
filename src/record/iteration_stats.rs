//! [`IterationStats`]: statistics of the single iterations of a case.

use serde::{Deserialize, Serialize};

use crate::units::Micros;

/// Statistics of the times of single iterations; for each iteration the slowest GPU counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IterationStats {
    /// First iterations that the statistics exclude.
    pub skipped: u32,
    /// The shortest.
    pub min: Micros,
    /// The longest.
    pub max: Micros,
    /// The mean.
    pub mean: Micros,
    /// The median: of two in the middle, the higher.
    pub p50: Micros,
    /// 95th percentile.
    pub p95: Micros,
    /// 99th percentile.
    pub p99: Micros,
    /// Standard deviation.
    pub deviation: Micros,
    /// All times in order, including the excluded ones.
    pub times: Vec<Micros>,
}

impl IterationStats {
    /// Returns the statistics of `times` without the first `skip`; `None` if no time is left.
    ///
    /// Percentiles are by nearest rank, the median is the value at half the count, as in nccl-tests
    /// 2.19.6.
    pub fn new(times: Vec<Micros>, skip: u32) -> Option<IterationStats> {
        let mut sorted: Vec<f64> = times
            .iter()
            .skip(skip as usize)
            .map(|time| time.0)
            .collect();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let variance = sorted.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        Some(IterationStats {
            skipped: skip,
            min: Micros(min),
            max: Micros(max),
            mean: Micros(mean),
            p50: Micros(sorted[sorted.len() / 2]),
            p95: Micros(percentile(&sorted, 95)),
            p99: Micros(percentile(&sorted, 99)),
            deviation: Micros(variance.sqrt()),
            times,
        })
    }

    /// Returns the coefficient of variation: the standard deviation in percent of the mean.
    pub fn variation(&self) -> f64 {
        if self.mean.0 > 0.0 {
            100.0 * self.deviation.0 / self.mean.0
        } else {
            0.0
        }
    }
}

/// Returns the value at a percentile of `sorted`, which is not empty.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_nccl_tests() {
        let times = [100.0, 4.0, 2.0, 3.0, 1.0].map(Micros).to_vec();
        let iteration_times = IterationStats::new(times.clone(), 1).expect("four are left");
        assert_eq!(
            (
                iteration_times.min,
                iteration_times.max,
                iteration_times.mean
            ),
            (Micros(1.0), Micros(4.0), Micros(2.5))
        );
        assert_eq!(
            (
                iteration_times.p50,
                iteration_times.p95,
                iteration_times.p99
            ),
            (Micros(3.0), Micros(4.0), Micros(4.0))
        );
        assert!((iteration_times.deviation.0 - 1.25_f64.sqrt()).abs() < 1e-12);
        assert!((iteration_times.variation() - 44.721).abs() < 1e-3);
        assert_eq!(iteration_times.times, times);
        let hundred = IterationStats::new((1..=200).map(|time| Micros(time.into())).collect(), 0)
            .expect("all");
        assert_eq!(
            (hundred.p50, hundred.p95, hundred.p99),
            (Micros(101.0), Micros(190.0), Micros(198.0))
        );
        assert_eq!(IterationStats::new(times, 5), None);
    }
}
