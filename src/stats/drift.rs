//! Whether a series of times changes between its beginning and its end.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::batch_mean::BatchMean;

/// The difference of two means, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The mean at the end less the mean at the beginning.
    pub change: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Drift {
    /// Returns the change from `first` to `last`, each in the order in which it was measured; `None` if one has fewer than two
    /// values.
    ///
    /// The interval is that of B. L. Welch, "The Generalization of Student's Problem when Several Different Population
    /// Variances are Involved" (1947), on [`BatchMean`]s, because seconds that follow each other are alike.
    pub fn new(first: &[f64], last: &[f64], confidence: f64) -> Option<Drift> {
        let (first, last) = (
            BatchMean::new(first, confidence)?,
            BatchMean::new(last, confidence)?,
        );
        let change = last.mean - first.mean;
        let variances = [first, last].map(|mean| mean.error.powi(2));
        let variance: f64 = variances.iter().sum();
        let mut margin = 0.0;
        if variance > 0.0 {
            // The degrees of freedom by Welch and Satterthwaite.
            let weights =
                variances[0].powi(2) / first.freedom + variances[1].powi(2) / last.freedom;
            let student = StudentsT::new(0.0, 1.0, variance.powi(2) / weights).ok()?;
            margin = student.inverse_cdf(0.5 + confidence / 2.0) * variance.sqrt();
        }
        Some(Drift {
            change,
            low: change - margin,
            high: change + margin,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: means 2.5 and 12.5, both with the standard error sqrt(5/3)/2; together sqrt(5/6) = 0.912871 with six
    /// degrees of freedom, for which Student's t is 2.446912 at 97.5 %.
    #[test]
    fn an_example_by_hand() {
        let first = [1.0, 4.0, 2.0, 3.0];
        let last = first.map(|value| value + 10.0);
        let drift = Drift::new(&first, &last, 0.95).expect("values");
        assert_eq!(drift.change, 10.0);
        let margin = 2.446_911_851 * 0.912_870_929;
        assert!((drift.high - 10.0 - margin).abs() < 1e-6, "{drift:?}");
        assert!((drift.low - 10.0 + margin).abs() < 1e-6, "{drift:?}");
    }

    #[test]
    fn values_without_a_spread_and_too_few() {
        let drift = Drift::new(&[1.0; 3], &[2.0; 3], 0.95).expect("values");
        assert_eq!((drift.change, drift.low, drift.high), (1.0, 1.0, 1.0));
        assert_eq!(Drift::new(&[1.0], &[2.0, 3.0], 0.95), None);
    }
}
