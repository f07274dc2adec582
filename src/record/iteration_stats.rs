//! [`IterationStats`]: statistics of the single iterations of a case.

use serde::{Deserialize, Serialize};

use crate::units::Micros;

/// What single iterations took: of each the time of the GPU that took longest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IterationStats {
    /// Iterations at the beginning that the statistics leave out.
    pub skipped: u32,
    /// The shortest.
    pub min: Micros,
    /// The longest.
    pub max: Micros,
    /// Their mean.
    pub mean: Micros,
    /// The median: the higher of the two in the middle where there are two.
    pub p50: Micros,
    /// 95 of 100 are not longer.
    pub p95: Micros,
    /// 99 of 100 are not longer.
    pub p99: Micros,
    /// Standard deviation of all of them.
    pub deviation: Micros,
    /// All, in order, the left out ones too.
    pub times: Vec<Micros>,
}

impl IterationStats {
    /// The statistics of `times` without the first `skip`; `None` where nothing is left.
    ///
    /// Percentiles are by nearest rank, the median is the value at half the count, as in nccl-tests 2.19.6.
    pub fn of(times: Vec<Micros>, skip: u32) -> Option<IterationStats> {
        let mut sorted: Vec<f64> = times
            .iter()
            .skip(skip as usize)
            .map(|time| time.0)
            .collect();
        let (count, (min, max)) = (sorted.len(), {
            sorted.sort_by(f64::total_cmp);
            (sorted.first().copied()?, sorted.last().copied()?)
        });
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let variance = sorted.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count as f64;
        let rank =
            |percent: usize| Micros(sorted[(count * percent).div_ceil(100).clamp(1, count) - 1]);
        Some(IterationStats {
            skipped: skip,
            min: Micros(min),
            max: Micros(max),
            mean: Micros(mean),
            p50: Micros(sorted[count / 2]),
            p95: rank(95),
            p99: rank(99),
            deviation: Micros(variance.sqrt()),
            times,
        })
    }

    /// Coefficient of variation: standard deviation in percent of the mean.
    pub fn variation(&self) -> f64 {
        if self.mean.0 > 0.0 {
            100.0 * self.deviation.0 / self.mean.0
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_nccl_tests() {
        let times = [100.0, 4.0, 2.0, 3.0, 1.0].map(Micros).to_vec();
        let iteration_times = IterationStats::of(times.clone(), 1).expect("four are left");
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
        let hundred = IterationStats::of((1..=200).map(|time| Micros(time.into())).collect(), 0)
            .expect("all");
        assert_eq!(
            (hundred.p50, hundred.p95, hundred.p99),
            (Micros(101.0), Micros(190.0), Micros(198.0))
        );
        assert_eq!(IterationStats::of(times, 5), None);
    }
}
