//! Many differences at once.

/// Returns which of many p-values are discoveries, so that the false ones among them are on average
/// at most the part `rate`.
///
/// This is the procedure of Y. Benjamini and Y. Hochberg, "Controlling the False Discovery Rate"
/// (1995), which they proved for independent values. It also holds for values that rise and fall
/// together, as those of the sizes of one collective do: Y. Benjamini and D. Yekutieli, "The
/// Control of the False Discovery Rate in Multiple Testing under Dependency" (2001).
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

    /// The 15 values of the paper's example, of which it finds four at 5 %.
    #[test]
    fn four_of_the_papers_fifteen_values_are_discoveries() {
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
