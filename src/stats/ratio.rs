//! The ratio of two steps that were measured in the same blocks.

use statrs::distribution::{ContinuousCDF, StudentsT};

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
pub struct PairedRatio {
    /// The geometric mean of the ratios of all blocks, which is the ratio of the geometric means.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The probability of a ratio at least this far from 1 if the steps do not differ.
    pub p_value: f64,
    /// Blocks in which both steps have a time.
    pub blocks: usize,
}

impl PairedRatio {
    /// Returns the ratio of `pairs` with its interval by Student's t over the logarithms of the blocks' ratios.
    /// Whatever slows down both steps of a block, such as a drift of the machine, cancels out.
    ///
    /// `resolution` is the step in which times were recorded, in their unit. Times that agree to the last digit are
    /// not known more exactly than that.
    ///
    /// `None` for fewer than two blocks, which tell nothing about the spread, and for times that are not above zero.
    pub fn new(pairs: &[Pair], confidence: f64, resolution: f64) -> Option<PairedRatio> {
        let blocks = pairs.len();
        if blocks < 2 || pairs.iter().any(|pair| !is_valid(pair)) {
            return None;
        }
        let count = blocks as f64;
        let logs: Vec<f64> = pairs.iter().map(Pair::log_ratio).collect();
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let rounding: f64 = pairs
            .iter()
            .map(|pair| pair.rounding_variance(resolution))
            .sum();
        let variance = (squares / (count - 1.0)).max(rounding / count);
        let error = (variance / count).sqrt();

        let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
        let margin = student.inverse_cdf(0.5 + confidence / 2.0) * error;
        Some(PairedRatio {
            ratio: mean.exp(),
            low: (mean - margin).exp(),
            high: (mean + margin).exp(),
            p_value: two_sided(&student, mean, error),
            blocks,
        })
    }

    /// Returns the half width of the interval relative to the ratio: 0.02 for ±2 %. The interval is symmetrical on the scale
    /// of logarithms, so this is its upper half.
    pub fn half_width(&self) -> f64 {
        self.high / self.ratio - 1.0
    }
}

impl Pair {
    fn log_ratio(&self) -> f64 {
        (self.time / self.reference).ln()
    }

    /// Returns the variance that rounding adds to the logarithm of the ratio. A rounding error is uniform, so its
    /// variance is a twelfth of the squared step.
    fn rounding_variance(&self, resolution: f64) -> f64 {
        let relative = |time: f64| (resolution / time).powi(2) / 12.0;
        relative(self.time) + relative(self.reference)
    }
}

fn is_valid(pair: &Pair) -> bool {
    let is_time = |time: f64| time.is_finite() && time > 0.0;
    is_time(pair.time) && is_time(pair.reference)
}

/// Returns the probability of a mean at least this far from zero.
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

    /// By hand: the logarithms are ln 0.5, ln 0.5, ln 0.25. Mean -0.924196, standard deviation 0.400189, standard
    /// error 0.231049. Student's t with two degrees of freedom is 4.302653 at 97.5 %.
    #[test]
    fn an_example_by_hand() {
        let ratio = PairedRatio::new(&pairs(&[(1.0, 2.0), (3.0, 6.0), (1.0, 4.0)]), 0.95, 0.0);
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
        let ratio = PairedRatio::new(&pairs(&[(1.0, 2.0), (100.0, 200.0)]), 0.95, 0.0);
        let ratio = ratio.expect("two blocks");
        assert_eq!((ratio.ratio, ratio.p_value), (0.5, 0.0));
    }

    #[test]
    fn times_are_not_known_better_than_they_were_recorded() {
        let recorded = pairs(&[(10.01, 10.0), (10.01, 10.0), (10.01, 10.0)]);
        let ratio = PairedRatio::new(&recorded, 0.95, 0.01).expect("three blocks");
        assert!(ratio.low < 1.0 && ratio.p_value > 0.05, "{ratio:?}");
    }

    #[test]
    fn what_has_no_interval() {
        for times in [
            &[][..],
            &[(1.0, 2.0)],
            &[(1.0, 0.0), (1.0, 1.0)],
            &[(1.0, f64::NAN), (1.0, 1.0)],
        ] {
            assert_eq!(PairedRatio::new(&pairs(times), 0.95, 0.0), None);
        }
    }
}
