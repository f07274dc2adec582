//! Many differences at once.

/// Returns which of many p-values count, so that on average at most `rate` of those that count are false.
///
/// This is the procedure of Y. Benjamini and Y. Hochberg, "Controlling the False Discovery Rate" (1995). It holds for
/// independent values and for those that rise and fall together, as the sizes of one collective do.
pub fn discoveries(p_values: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mut threshold = None;
    for (index, value) in sorted.iter().enumerate() {
        let rank = index as f64 + 1.0;
        if *value <= rate * rank / count {
            threshold = Some(*value);
        }
    }
    p_values
        .iter()
        .map(|value| threshold.is_some_and(|threshold| *value <= threshold))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the paper: 15 values, of which four count at 5 %.
    #[test]
    fn the_example_of_the_paper() {
        let values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let counted = discoveries(&values, 0.05);
        assert_eq!(counted.iter().filter(|counts| **counts).count(), 4);
        assert!(counted[..4].iter().all(|counts| *counts));
    }

    #[test]
    fn nothing_to_judge_and_nothing_found() {
        assert!(discoveries(&[], 0.05).is_empty());
        assert_eq!(discoveries(&[0.06, f64::NAN], 0.05), [false, false]);
    }
}
