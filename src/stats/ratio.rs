//! [`TimeRatio`]: the ratio of the times of two steps, with its interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{unpaired::LogTimes, welch::UncertainMean};

/// The times of two steps in one block, in any unit, both above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The time of the step that is judged.
    pub time: f64,
    /// The time of the step that it is compared with.
    pub reference: f64,
}

/// A ratio of times, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRatio {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The probability of a ratio at least this far from 1 if the steps do not differ.
    pub p_value: f64,
}

impl TimeRatio {
    /// Returns the ratio of two steps from their times in each block: the geometric mean of the
    /// blocks' ratios, with its interval by Student's t over the logarithms of these ratios. What
    /// slows down both steps of a block, such as a drift of the machine, cancels out.
    ///
    /// `resolution` is the step in which times were rounded, in their unit. Rounding alone makes
    /// times agree to the last digit, so the spread counts as at least that of rounding errors.
    ///
    /// Returns `None` for fewer than two blocks, which tell nothing about the spread, and if a time
    /// is not above zero.
    pub fn paired(pairs: &[Pair], confidence: f64, resolution: f64) -> Option<TimeRatio> {
        let blocks = pairs.len();
        if blocks < 2 || pairs.iter().any(|pair| !is_valid(pair)) {
            return None;
        }
        let ratios: Vec<f64> = pairs
            .iter()
            .map(|pair| pair.time / pair.reference)
            .collect();
        let rounding = pairs.iter().map(|pair| pair.rounding_variance(resolution));
        let mean = log_mean(&ratios, rounding.sum())?;
        TimeRatio::of_logarithm(&mean, confidence)
    }

    /// Returns the ratio of `times` to `references`, which were not measured in common blocks: the
    /// ratio of their geometric means, with Welch's interval for the difference of the means of
    /// their logarithms.
    ///
    /// `resolution` is as for [`TimeRatio::paired`]. Returns `None` if either has fewer than two
    /// times, or one that is not above zero.
    pub fn unpaired(
        times: &[f64],
        references: &[f64],
        confidence: f64,
        resolution: f64,
    ) -> Option<TimeRatio> {
        let [time, reference] = [times, references].map(|times| {
            let rounding = times
                .iter()
                .map(|time| rounding_variance(*time, resolution));
            log_mean(times, rounding.sum())
        });
        TimeRatio::of_logarithm(&time?.minus(&reference?), confidence)
    }

    /// Returns the ratio whose logarithm is `logarithm`.
    fn of_logarithm(logarithm: &UncertainMean, confidence: f64) -> Option<TimeRatio> {
        let mean = logarithm.mean;
        let margin = logarithm.margin(confidence)?;
        Some(TimeRatio {
            ratio: mean.exp(),
            low: (mean - margin).exp(),
            high: (mean + margin).exp(),
            p_value: two_sided(&logarithm.student()?, mean, logarithm.error()),
        })
    }

    /// Returns the half width of the interval relative to the ratio: 0.02 for ±2 %. The interval is
    /// symmetrical for logarithms only, so its upper half, the larger one, counts.
    pub fn half_width(&self) -> f64 {
        self.high / self.ratio - 1.0
    }
}

/// Returns the mean of the logarithms of `values`. Their variance counts as at least that of
/// rounding, of which `rounding` is the sum over the values.
fn log_mean(values: &[f64], rounding: f64) -> Option<UncertainMean> {
    let mut logs = LogTimes::of(values)?;
    logs.variance = logs.variance.max(rounding / logs.count);
    Some(logs.uncertain())
}

impl Pair {
    /// Returns the variance that rounding adds to the logarithm of the ratio.
    fn rounding_variance(&self, resolution: f64) -> f64 {
        rounding_variance(self.time, resolution) + rounding_variance(self.reference, resolution)
    }
}

/// Returns the variance that rounding adds to the logarithm of a time. A rounding error is uniform,
/// so its variance is a twelfth of the squared step.
fn rounding_variance(time: f64, resolution: f64) -> f64 {
    (resolution / time).powi(2) / 12.0
}

fn is_valid(pair: &Pair) -> bool {
    is_time(pair.time) && is_time(pair.reference)
}

fn is_time(time: f64) -> bool {
    time.is_finite() && time > 0.0
}

/// Returns the probability of a mean at least this far from zero if the true mean is zero.
fn two_sided(student: &StudentsT, mean: f64, error: f64) -> f64 {
    if mean == 0.0 {
        return 1.0;
    }
    // No spread at all and no rounding: the difference is certain.
    if error == 0.0 {
        return 0.0;
    }
    2.0 * student.sf(mean.abs() / error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(times: &[(f64, f64)]) -> Vec<Pair> {
        let pair = |&(time, reference)| Pair { time, reference };
        times.iter().map(pair).collect()
    }

    fn assert_close(seen: f64, expected: f64) {
        assert!(
            (seen / expected - 1.0).abs() < 1e-6,
            "{seen} is not {expected}"
        );
    }

    /// By hand: the logarithms are ln 0.5, ln 0.5, ln 0.25. Mean -0.924196, standard deviation
    /// 0.400189, standard error 0.231049. Student's t with two degrees of freedom is 4.302653 at
    /// 97.5 %.
    #[test]
    fn an_example_by_hand() {
        let ratio = TimeRatio::paired(&pairs(&[(1.0, 2.0), (3.0, 6.0), (1.0, 4.0)]), 0.95, 0.0);
        let ratio = ratio.expect("three blocks");
        assert_close(ratio.ratio, 0.5 * 0.5_f64.cbrt());
        let margin = 4.302_652_729_911_275 * 2.0_f64.ln() / 3.0;
        assert_close(ratio.low, ratio.ratio * (-margin).exp());
        assert_close(ratio.high, ratio.ratio * margin.exp());
        // With two degrees of freedom, t = 4 has a two-sided probability of 1 - 4/sqrt(18).
        assert_close(ratio.p_value, 1.0 - 4.0 / 18.0_f64.sqrt());
    }

    #[test]
    fn a_slow_block_slows_both() {
        let ratio = TimeRatio::paired(&pairs(&[(1.0, 2.0), (100.0, 200.0)]), 0.95, 0.0);
        let ratio = ratio.expect("two blocks");
        assert_eq!((ratio.ratio, ratio.p_value), (0.5, 0.0));
    }

    #[test]
    fn times_are_not_known_better_than_they_were_recorded() {
        let recorded = pairs(&[(10.01, 10.0), (10.01, 10.0), (10.01, 10.0)]);
        let ratio = TimeRatio::paired(&recorded, 0.95, 0.01).expect("three blocks");
        assert!(ratio.low < 1.0 && ratio.p_value > 0.05, "{ratio:?}");
    }

    /// The logarithms are 0, ln 2 and 2 ln 2 against 0 and 2 ln 2: the means agree. Variances ln²2
    /// and 2 ln²2, of the means ln²2 / 3 and ln²2. With those, the degrees of freedom are (4/3)² /
    /// ((1/3)²/2 + 1²/1) = 32/19.
    #[test]
    fn an_unpaired_example_by_hand() {
        let ratio = TimeRatio::unpaired(&[1.0, 2.0, 4.0], &[1.0, 4.0], 0.95, 0.0);
        let ratio = ratio.expect("several times each");
        assert_close(ratio.ratio, 1.0);
        assert_close(ratio.p_value, 1.0);
        let student = StudentsT::new(0.0, 1.0, 32.0 / 19.0).expect("a distribution");
        let margin = student.inverse_cdf(0.975) * (4.0_f64 / 3.0).sqrt() * 2.0_f64.ln();
        assert_close(ratio.high, margin.exp());
        assert_close(ratio.low, (-margin).exp());
    }

    /// With equal numbers and equal spreads, Welch's interval is that of the pooled variance:
    /// logarithms 0, ln 2 against ln 4, ln 8, whose means differ by 2 ln 2 with a variance of ln²2
    /// / 2, so t is √8 with two degrees of freedom.
    #[test]
    fn unpaired_with_equal_spreads() {
        let ratio = TimeRatio::unpaired(&[4.0, 8.0], &[1.0, 2.0], 0.95, 0.0).expect("two each");
        assert_close(ratio.ratio, 4.0);
        // With two degrees of freedom, the two-sided probability of t is 1 - t / sqrt(2 + t²).
        assert_close(ratio.p_value, 1.0 - 8.0_f64.sqrt() / 10.0_f64.sqrt());
    }

    #[test]
    fn unpaired_times_without_spread_differ_for_certain_unless_rounded() {
        let exact = TimeRatio::unpaired(&[2.0, 2.0], &[1.0, 1.0], 0.95, 0.0).expect("two each");
        assert_eq!((exact.ratio, exact.low, exact.p_value), (2.0, 2.0, 0.0));
        let rounded = TimeRatio::unpaired(&[10.01, 10.01], &[10.0, 10.0], 0.95, 0.01);
        assert!(rounded.expect("two each").p_value > 0.05, "{rounded:?}");
        for (times, references) in [(&[1.0][..], &[1.0, 1.0][..]), (&[1.0, 0.0], &[1.0, 1.0])] {
            assert_eq!(TimeRatio::unpaired(times, references, 0.95, 0.0), None);
        }
    }

    #[test]
    fn too_few_blocks_and_times_that_are_not_above_zero_have_no_ratio() {
        for times in [
            &[][..],
            &[(1.0, 2.0)],
            &[(1.0, 0.0), (1.0, 1.0)],
            &[(1.0, f64::NAN), (1.0, 1.0)],
        ] {
            assert_eq!(TimeRatio::paired(&pairs(times), 0.95, 0.0), None);
        }
    }
}
