//! [`geometric_mean`]: the mean of times that are compared by their ratios.

/// Returns the geometric mean of `times`, in their unit; `None` if there are none, or if one is not
/// above zero.
pub fn geometric_mean(times: &[f64]) -> Option<f64> {
    match times {
        [] => None,
        _ if times.iter().any(|time| *time <= 0.0) => None,
        // A single time stays as it is, to the last digit.
        [only] => Some(*only),
        _ => {
            let logarithms: f64 = times.iter().map(|time| time.ln()).sum();
            Some((logarithms / times.len() as f64).exp())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_cancel() {
        let mean = geometric_mean(&[5.0, 20.0, 10.0]).expect("three times");
        assert!((mean - 10.0).abs() < 1e-12, "{mean}");
        assert_eq!(geometric_mean(&[0.1]), Some(0.1));
    }

    #[test]
    fn no_time_and_a_time_of_zero_have_no_mean() {
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }
}
