//! [`Quartiles`] of times.

use serde::Serialize;

use crate::units::Micros;

/// The middle of some times, and the range of their middle half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    /// A quarter of the times are shorter.
    pub first_us: Micros,
    /// The median.
    pub median_us: Micros,
    /// A quarter of the times are longer.
    pub third_us: Micros,
}

impl Quartiles {
    /// Returns the quartiles of `times`; `None` if there are none.
    pub fn new(times: impl Iterator<Item = Micros>) -> Option<Quartiles> {
        let sorted = sorted(times.map(|time| time.0).collect());
        Some(Quartiles {
            first_us: Micros(quantile(&sorted, 0.25)?),
            median_us: Micros(quantile(&sorted, 0.5)?),
            third_us: Micros(quantile(&sorted, 0.75)?),
        })
    }
}

/// Returns the median of `values`; `None` if there are none.
pub fn median(values: Vec<f64>) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the quantile of `sorted` values, between two of them in proportion.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values_in_proportion() {
        let times = [4.0, 1.0, 3.0, 2.0].map(Micros);
        let found = Quartiles::new(times.into_iter()).expect("four times");
        assert_eq!(
            found,
            Quartiles {
                first_us: Micros(1.75),
                median_us: Micros(2.5),
                third_us: Micros(3.25),
            }
        );
        assert_eq!(median(vec![7.0]), Some(7.0));
        assert_eq!(median(Vec::new()), None);
    }
}
