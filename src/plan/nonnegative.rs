//! Least squares with three terms whose coefficients are not negative.

/// The terms of a cost: the constant, the steps, the bytes.
pub(super) const TERMS: usize = 3;

/// The sets of terms: bit 0 stands for the constant, bit 1 for the steps, bit 2 for the bytes. Of
/// sets that fit equally well, the first is taken.
const SUBSETS: [usize; 7] = [0b001, 0b100, 0b101, 0b010, 0b110, 0b011, 0b111];

/// A pivot of the scaled matrix below which terms cannot be told apart.
const SINGULAR: f64 = 1e-9;

/// A matrix of the terms. A set of fewer terms uses its first rows and columns.
type TermMatrix = [[f64; TERMS]; TERMS];

/// Sums over observations whose coefficients are wanted: X'X and X'y of least squares, in which
/// every y is 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NormalEquations {
    products: TermMatrix,
    sums: [f64; TERMS],
    count: f64,
}

/// The coefficients of a fit, and how they would vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solution {
    /// The coefficient of each term; 0 if it is left out.
    pub(super) coefficients: [f64; TERMS],
    /// The variance of each coefficient if that of the residuals is 1: the diagonal of the inverse
    /// of X'X. `None` if the term is left out.
    pub(super) variances: [Option<f64>; TERMS],
}

impl Solution {
    /// Returns the sum of `terms`, each times its coefficient.
    pub(super) fn predict(&self, terms: &[f64; TERMS]) -> f64 {
        let products = self.coefficients.iter().zip(terms);
        products.map(|(coefficient, term)| coefficient * term).sum()
    }
}

impl NormalEquations {
    /// Adds an observation whose terms, each times its coefficient, should add up to 1.
    pub(super) fn add(&mut self, terms: [f64; TERMS]) {
        self.add_weighted(terms, 1.0);
    }

    /// Adds an observation whose squared residual counts `weight` times.
    pub(super) fn add_weighted(&mut self, terms: [f64; TERMS], weight: f64) {
        for (at, term) in terms.iter().enumerate() {
            for (other, product) in terms.iter().zip(&mut self.products[at]) {
                *product += weight * term * other;
            }
            self.sums[at] += weight * term;
        }
        self.count += weight;
    }

    /// Adds the observations of `other`.
    #[allow(
        clippy::needless_range_loop,
        reason = "rows and columns of several matrices"
    )]
    pub(super) fn extend(&mut self, other: &NormalEquations) {
        for at in 0..TERMS {
            for (own, more) in self.products[at].iter_mut().zip(other.products[at]) {
                *own += more;
            }
            self.sums[at] += other.sums[at];
        }
        self.count += other.count;
    }

    /// Returns the coefficients, none of them negative, with the least sum of squares; `None` if
    /// there are no observations, or if all terms are 0.
    ///
    /// The best coefficients are the unconstrained least squares of the terms whose coefficients
    /// are not zero. There are so few terms that every set of them is tried.
    pub(super) fn solve(&self) -> Option<Solution> {
        let mut best: Option<(f64, Solution)> = None;
        for subset in SUBSETS {
            let Some(solution) = self.solve_subset(subset) else {
                continue;
            };
            let error = self.error(&solution.coefficients);
            let is_better = best.as_ref().is_none_or(|(least, _)| {
                let margin = 1e-12 * self.count;
                error < least - margin
            });
            if is_better {
                best = Some((error, solution));
            }
        }
        best.map(|(_, solution)| solution)
    }

    /// Returns the least squares of the terms that `other` uses; `None` if a coefficient is not
    /// above zero.
    pub(super) fn solve_terms_of(&self, other: &Solution) -> Option<Solution> {
        let mut subset = 0;
        for (term, variance) in other.variances.iter().enumerate() {
            subset |= usize::from(variance.is_some()) << term;
        }
        self.solve_subset(subset)
    }

    /// Returns the sum of squared residuals.
    #[allow(
        clippy::needless_range_loop,
        reason = "rows and columns of several matrices"
    )]
    fn error(&self, coefficients: &[f64; TERMS]) -> f64 {
        let mut error = self.count;
        for at in 0..TERMS {
            let row: f64 = self.products[at]
                .iter()
                .zip(coefficients)
                .map(|(product, coefficient)| product * coefficient)
                .sum();
            error += coefficients[at] * (row - 2.0 * self.sums[at]);
        }
        error
    }

    /// Returns the least squares of the terms of `subset`; `None` if a coefficient is not above
    /// zero, or if they cannot be told apart.
    fn solve_subset(&self, subset: usize) -> Option<Solution> {
        let terms: Vec<usize> = (0..TERMS).filter(|term| subset >> term & 1 == 1).collect();
        // Terms have different units. Divided by their lengths, they have a matrix with 1 on its
        // diagonal.
        let length = |term: usize| self.products[term][term].sqrt();
        if terms.iter().any(|term| length(*term) <= 0.0) {
            return None;
        }
        let mut scaled = TermMatrix::default();
        for (row, &term) in terms.iter().enumerate() {
            for (column, &other) in terms.iter().enumerate() {
                scaled[row][column] = self.products[term][other] / (length(term) * length(other));
            }
        }
        let inverse = inverse(scaled, terms.len())?;
        let mut solution = Solution {
            coefficients: [0.0; TERMS],
            variances: [None; TERMS],
        };
        for (row, &term) in terms.iter().enumerate() {
            let mut sum = 0.0;
            for (column, &other) in terms.iter().enumerate() {
                sum += inverse[row][column] * self.sums[other] / length(other);
            }
            let coefficient = sum / length(term);
            if coefficient.is_nan() || coefficient <= 0.0 {
                return None;
            }
            solution.coefficients[term] = coefficient;
            solution.variances[term] = Some(inverse[row][row] / length(term).powi(2));
        }
        Some(solution)
    }
}

/// Returns the inverse of the first `size` rows and columns by Gauss-Jordan elimination; `None` if
/// they are singular. The matrix is positive definite, so no rows need to change places.
#[allow(
    clippy::needless_range_loop,
    reason = "rows and columns of two matrices"
)]
fn inverse(mut matrix: TermMatrix, size: usize) -> Option<TermMatrix> {
    let mut inverse = TermMatrix::default();
    for (row, values) in inverse.iter_mut().enumerate() {
        values[row] = 1.0;
    }
    for pivot in 0..size {
        let divisor = matrix[pivot][pivot];
        if divisor < SINGULAR {
            return None;
        }
        for column in 0..size {
            matrix[pivot][column] /= divisor;
            inverse[pivot][column] /= divisor;
        }
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            for column in 0..size {
                matrix[row][column] -= factor * matrix[pivot][column];
                inverse[row][column] -= factor * inverse[pivot][column];
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Through (1, 1), (2, 3) goes 1 = 2 · first - second, and the best fit without the second term
    /// is 1 = 3/5 · first.
    #[test]
    fn a_term_whose_coefficient_would_be_negative_is_left_out() {
        let mut equations = NormalEquations::default();
        for (first, second) in [(1.0, 1.0), (2.0, 3.0)] {
            equations.add([first, second, 0.0]);
        }
        let solution = equations.solve().expect("a fit");
        assert!((solution.coefficients[0] - 0.6).abs() < 1e-12);
        assert_eq!(solution.coefficients[1..], [0.0, 0.0]);
        assert_eq!(solution.variances[1..], [None, None]);
    }

    #[test]
    fn without_observations_there_is_no_fit() {
        assert!(NormalEquations::default().solve().is_none());
    }

    proptest! {
        #[test]
        fn no_other_coefficients_fit_better(rows in prop::collection::vec([0.01..10.0_f64, 0.01..10.0, 0.01..10.0], 4..12),
                                            others in prop::collection::vec([0.0..3.0_f64, 0.0..3.0, 0.0..3.0], 50)) {
            let mut equations = NormalEquations::default();
            for row in &rows {
                equations.add(*row);
            }
            let best = equations.solve().expect("a fit");
            let least = equations.error(&best.coefficients);
            for other in &others {
                // Also near the best ones.
                let near = std::array::from_fn(|at| best.coefficients[at] * (0.9 + other[at] / 15.0));
                prop_assert!(equations.error(other) >= least - 1e-6);
                prop_assert!(equations.error(&near) >= least - 1e-6);
            }
        }
    }
}
