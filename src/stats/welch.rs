//! [`UncertainMean`]: a mean with its standard error, and the difference of two by Welch's method.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean, with the variance of that mean and the degrees of freedom of the variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UncertainMean {
    /// The mean.
    pub(super) mean: f64,
    /// The variance of the mean: its squared standard error.
    pub(super) variance: f64,
    /// The degrees of freedom of the variance.
    pub(super) freedom: f64,
}

impl UncertainMean {
    /// Returns the difference of this mean and `other`, which may spread differently: the method of
    /// B. L. Welch, "The Generalization of 'Student's' Problem when Several Different Population
    /// Variances are Involved" (1947), with the degrees of freedom of F. E. Satterthwaite (1946).
    pub(super) fn minus(&self, other: &UncertainMean) -> UncertainMean {
        let variance = self.variance + other.variance;
        let freedom = if variance > 0.0 {
            variance.powi(2)
                / (self.variance.powi(2) / self.freedom + other.variance.powi(2) / other.freedom)
        } else {
            self.freedom + other.freedom
        };
        UncertainMean {
            mean: self.mean - other.mean,
            variance,
            freedom,
        }
    }

    /// Returns the standard error.
    pub(super) fn error(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Returns the distribution of the mean divided by its standard error, if the true mean is
    /// zero.
    pub(super) fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }

    /// Returns half the width of the interval at `confidence`, by Student's t.
    pub(super) fn margin(&self, confidence: f64) -> Option<f64> {
        let student = self.student()?;
        Some(student.inverse_cdf(0.5 + confidence / 2.0) * self.error())
    }
}
