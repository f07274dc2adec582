//! [`UnpairedRatio`]: the ratio of the times of two steps that have no blocks in common.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::welch::UncertainMean;

/// Repeated measurements of a step's time: the mean and the variance of their logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogTimes {
    /// The mean of the logarithms.
    pub mean: f64,
    /// Their variance.
    pub variance: f64,
    /// How many there are.
    pub count: f64,
}

impl LogTimes {
    /// Returns the logarithms of `times`, which are in any unit; `None` for fewer than two, and for
    /// times that are not above zero.
    pub fn of(times: &[f64]) -> Option<LogTimes> {
        let is_time = |time: &f64| time.is_finite() && *time > 0.0;
        if times.len() < 2 || !times.iter().all(is_time) {
            return None;
        }
        let count = times.len() as f64;
        let mean = times.iter().map(|time| time.ln()).sum::<f64>() / count;
        let squares: f64 = times.iter().map(|time| (time.ln() - mean).powi(2)).sum();
        Some(LogTimes {
            mean,
            variance: squares / (count - 1.0),
            count,
        })
    }

    /// Returns the logarithms of `count` measurements with this mean and coefficient of variation:
    /// if it is small, the standard deviation of the logarithms is that coefficient. `None` for
    /// fewer than two, and for a mean that is not above zero.
    pub fn of_moments(mean: f64, variation: f64, count: u32) -> Option<LogTimes> {
        let is_valid = mean.is_finite() && mean > 0.0 && variation.is_finite() && count >= 2;
        is_valid.then(|| LogTimes {
            mean: mean.ln(),
            variance: variation.powi(2),
            count: count.into(),
        })
    }

    /// Returns the logarithms of `count` measurements whose mean has an interval by Student's t of
    /// `half_width`, relative to the mean, to each side at `confidence`. `None` for fewer than two,
    /// and for a mean that is not above zero.
    pub fn of_interval(
        mean: f64,
        half_width: f64,
        confidence: f64,
        count: u32,
    ) -> Option<LogTimes> {
        let student = StudentsT::new(0.0, 1.0, f64::from(count) - 1.0).ok()?;
        let error = half_width / student.inverse_cdf(0.5 + confidence / 2.0);
        LogTimes::of_moments(mean, error * f64::from(count).sqrt(), count)
    }

    /// Returns the mean with its error.
    pub(super) fn uncertain(&self) -> UncertainMean {
        UncertainMean {
            mean: self.mean,
            variance: self.variance / self.count,
            freedom: self.count - 1.0,
        }
    }

    /// Returns the geometric mean of the times, in their unit.
    pub fn geometric_mean(&self) -> f64 {
        self.mean.exp()
    }
}

/// A ratio of times that were not measured in the same blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnpairedRatio {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// The probability of a ratio at least this large if `times` are no slower than `reference`.
    pub p_slower: f64,
}

impl UnpairedRatio {
    /// Returns the ratio of `times` to `reference` by Welch's test on logarithms.
    pub fn new(times: &LogTimes, reference: &LogTimes) -> UnpairedRatio {
        let difference = times.uncertain().minus(&reference.uncertain());
        let error = difference.error();
        let p_slower = if error > 0.0 {
            let student = difference.student();
            student.map_or(1.0, |student| student.sf(difference.mean / error))
        } else if difference.mean > 0.0 {
            // No spread at all: the difference is certain.
            0.0
        } else {
            1.0
        };
        UnpairedRatio {
            ratio: difference.mean.exp(),
            p_slower,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: logarithms 0, 2, 4 and 0, 1, 2 have the means 2 and 1, the variances 4 and 1. The
    /// standard error is sqrt(4/3 + 1/3) = 1.290994, t is 0.774597, and there are (5/3)² /
    /// ((4/3)²/2 + (1/3)²/2) = 2.941176 degrees of freedom.
    #[test]
    fn an_example_by_hand() {
        let exp = |logs: [f64; 3]| logs.map(f64::exp);
        let slow = LogTimes::of(&exp([0.0, 2.0, 4.0])).expect("three times");
        let fast = LogTimes::of(&exp([0.0, 1.0, 2.0])).expect("three times");
        let ratio = UnpairedRatio::new(&slow, &fast);
        assert!((ratio.ratio - 1.0_f64.exp()).abs() < 1e-9);
        let student = StudentsT::new(0.0, 1.0, 50.0 / 17.0).expect("a distribution");
        let expected = student.sf((3.0_f64 / 5.0).sqrt());
        assert!((ratio.p_slower - expected).abs() < 1e-9, "{ratio:?}");
        let back = UnpairedRatio::new(&fast, &slow);
        assert!((back.p_slower + ratio.p_slower - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_time_has_no_spread() {
        assert_eq!(LogTimes::of(&[1.0]), None);
        assert_eq!(LogTimes::of(&[1.0, 0.0]), None);
        assert_eq!(LogTimes::of_moments(1.0, 0.1, 1), None);
    }

    /// By hand: with two measurements t is 12.706205 at 97.5 %, so that an interval of ±12.706205 %
    /// has a standard error of 1 %, and the measurements a deviation of sqrt(2) %.
    #[test]
    fn an_interval_tells_the_spread() {
        let times = LogTimes::of_interval(1.0, 0.127_062_047, 0.95, 2).expect("two");
        assert!((times.uncertain().error() - 0.01).abs() < 1e-9, "{times:?}");
        assert_eq!(LogTimes::of_interval(1.0, 0.1, 0.95, 1), None);
    }

    #[test]
    fn without_spread_a_difference_is_certain() {
        let times = LogTimes::of(&[2.0, 2.0]).expect("two times");
        let other = LogTimes::of(&[1.0, 1.0]).expect("two times");
        assert_eq!(UnpairedRatio::new(&times, &other).p_slower, 0.0);
        assert_eq!(UnpairedRatio::new(&other, &times).p_slower, 1.0);
        assert_eq!(UnpairedRatio::new(&times, &times).p_slower, 1.0);
    }
}
