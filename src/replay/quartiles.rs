//! [`Quartiles`] of times.

use serde::Serialize;

use crate::units::Micros;

/// The median of times, and the range of their middle half.
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

/// Returns the value below which `share` of the `sorted` values lie, interpolated linearly between
/// two neighbours: definition 7 of R. J. Hyndman and Y. Fan, "Sample Quantiles in Statistical
/// Packages" (1996).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share * last as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    Some(below + (above - below) * position.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated_between_neighbours() {
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
