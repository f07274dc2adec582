//! [`Estimate`]: a mean over repetitions with its interval, from sums that need no memory per row.

use statrs::distribution::{ContinuousCDF, StudentsT};

const CONFIDENCE: f64 = 0.95;

/// Sums over the repetitions of one case. Times multiply rather than add, so their logarithms are
/// summed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogSums {
    count: u32,
    mean: f64,
    /// Sum of the squared distances from the mean, by Welford's recurrence (Technometrics 4, 1962).
    squares: f64,
}

/// A geometric mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// The mean.
    pub(super) value: f64,
    /// Its 95 % interval; `None` if the spread is unknown.
    pub(super) interval: Option<(f64, f64)>,
    /// Values.
    pub(super) count: u32,
}

impl LogSums {
    /// Adds a value; one that is not above zero is left out.
    pub(super) fn add(&mut self, value: f64) {
        if !value.is_finite() || value <= 0.0 {
            return;
        }
        self.count += 1;
        let distance = value.ln() - self.mean;
        self.mean += distance / f64::from(self.count);
        self.squares += distance * (value.ln() - self.mean);
    }

    /// Returns the mean and its interval by Student's t. A single value has the interval that was
    /// measured with it: `precision` is half of it in percent of the value.
    pub(super) fn estimate(&self, precision: Option<f64>) -> Option<Estimate> {
        if self.count == 0 {
            return None;
        }
        Some(Estimate {
            value: self.mean.exp(),
            interval: self.interval(precision),
            count: self.count,
        })
    }

    fn interval(&self, precision: Option<f64>) -> Option<(f64, f64)> {
        let value = self.mean.exp();
        if self.count == 1 {
            let half = value * precision? / 100.0;
            return Some(((value - half).max(0.0), value + half));
        }
        let count = f64::from(self.count);
        let error = (self.squares / (count - 1.0) / count).sqrt();
        let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
        let factor = (student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * error).exp();
        Some((value / factor, value * factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(values: &[f64]) -> LogSums {
        let mut sums = LogSums::default();
        for value in values {
            sums.add(*value);
        }
        sums
    }

    #[test]
    fn the_interval_is_that_of_students_t() {
        let estimate = sums(&[8.0, 10.0, 12.5]).estimate(None).expect("a mean");
        assert!((estimate.value - 10.0).abs() < 1e-9);
        let (low, high) = estimate.interval.expect("an interval");
        // ln 1.25 / sqrt 3 · 4.302653, the 97.5 % quantile with two degrees of freedom.
        let factor = (1.25_f64.ln() / 3_f64.sqrt() * 4.302_653).exp();
        assert!((high / 10.0 / factor - 1.0).abs() < 1e-4, "{high}");
        assert!((low * high - 100.0).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_interval_but_that_measured_with_it() {
        let one = sums(&[20.0, 0.0, f64::NAN]);
        assert_eq!(one.estimate(None).expect("a mean").interval, None);
        let measured = one.estimate(Some(5.0)).expect("a mean").interval;
        let (low, high) = measured.expect("an interval");
        assert!((low - 19.0).abs() < 1e-9 && (high - 21.0).abs() < 1e-9);
        assert_eq!(sums(&[]).estimate(None), None);
    }
}
