//! Whether a series of times changes between its beginning and its end.

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
    /// Returns the change from `first` to `last`, each in the order in which it was measured;
    /// `None` if one has fewer than two values.
    ///
    /// The interval is Welch's for the difference of two [`BatchMean`]s, because consecutive values
    /// are correlated.
    pub fn new(first: &[f64], last: &[f64], confidence: f64) -> Option<Drift> {
        let (first, last) = (
            BatchMean::new(first, confidence)?,
            BatchMean::new(last, confidence)?,
        );
        let difference = last.uncertain().minus(&first.uncertain());
        let change = difference.mean;
        let margin = difference.margin(confidence)?;
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

    /// By hand: means 2.5 and 12.5, both with the standard error sqrt(5/3)/2; together sqrt(5/6) =
    /// 0.912871 with six degrees of freedom, for which Student's t is 2.446912 at 97.5 %.
    #[test]
    fn the_change_and_its_interval_are_those_computed_by_hand() {
        let first = [1.0, 4.0, 2.0, 3.0];
        let last = first.map(|value| value + 10.0);
        let drift = Drift::new(&first, &last, 0.95).expect("values");
        assert_eq!(drift.change, 10.0);
        let margin = 2.446_911_851 * 0.912_870_929;
        assert!((drift.high - 10.0 - margin).abs() < 1e-6, "{drift:?}");
        assert!((drift.low - 10.0 + margin).abs() < 1e-6, "{drift:?}");
    }

    #[test]
    fn values_without_spread_change_for_certain_and_one_value_tells_nothing() {
        let drift = Drift::new(&[1.0; 3], &[2.0; 3], 0.95).expect("values");
        assert_eq!((drift.change, drift.low, drift.high), (1.0, 1.0, 1.0));
        assert_eq!(Drift::new(&[1.0], &[2.0, 3.0], 0.95), None);
    }
}
