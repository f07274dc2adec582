//! Least squares of three terms whose coefficients are not negative.

/// Terms of a cost: the constant, the latency, the bytes.
pub(super) const TERMS: usize = 3;

/// The sets of terms, by bits. Of two that fit alike, the one that comes first is taken.
const SUBSETS: [usize; 7] = [0b001, 0b100, 0b101, 0b010, 0b110, 0b011, 0b111];

/// A determinant, relative to its diagonal, below which terms cannot be told apart.
const SINGULAR: f64 = 1e-9;

/// Sums of products over observations whose target is 1: all that a fit needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NormalEquations {
    products: [[f64; TERMS]; TERMS],
    sums: [f64; TERMS],
    count: f64,
}

/// Coefficients, and the inverse of the normal equations of those that are not zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solution {
    /// The coefficient of each term.
    pub(super) coefficients: [f64; TERMS],
    /// The diagonal of the inverse; `None` where a term is left out.
    pub(super) variances: [Option<f64>; TERMS],
}

impl Solution {
    /// Returns what the coefficients make of `terms`.
    pub(super) fn predict(&self, terms: &[f64; TERMS]) -> f64 {
        let products = self.coefficients.iter().zip(terms);
        products.map(|(coefficient, term)| coefficient * term).sum()
    }
}

impl NormalEquations {
    /// Adds an observation: its terms, of which the coefficients are to make 1.
    pub(super) fn add(&mut self, terms: [f64; TERMS]) {
        self.add_weighted(terms, 1.0);
    }

    /// Adds an observation whose square counts `weight` times.
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

    /// Returns the coefficients with the least sum of squares; `None` if there are no observations, or none with terms.
    ///
    /// With so few terms every set of them is tried: the best coefficients are the unconstrained ones of those that are not zero.
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

    /// Returns the coefficients of the terms that `other` uses, with the least sum of squares; `None` if one is not above zero.
    pub(super) fn solve_terms_of(&self, other: &Solution) -> Option<Solution> {
        let mut subset = 0;
        for (term, variance) in other.variances.iter().enumerate() {
            subset |= usize::from(variance.is_some()) << term;
        }
        self.solve_subset(subset)
    }

    /// Returns the sum of squares.
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

    /// Returns the least squares of the terms of `subset`; `None` if a coefficient is not above zero, or if they cannot be told
    /// apart.
    #[allow(
        clippy::needless_range_loop,
        reason = "rows and columns of several matrices"
    )]
    fn solve_subset(&self, subset: usize) -> Option<Solution> {
        let terms: Vec<usize> = (0..TERMS).filter(|term| subset >> term & 1 == 1).collect();
        let scale = |term: usize| self.products[term][term].sqrt();
        if terms.iter().any(|term| scale(*term) <= 0.0) {
            return None;
        }
        let scaled =
            |row: usize, column: usize| self.products[row][column] / (scale(row) * scale(column));
        let size = terms.len();
        // The scaled matrix, and the identity beside it, which Gauss and Jordan's elimination turns into the inverse.
        let mut left = [[0.0; TERMS]; TERMS];
        let mut inverse = [[0.0; TERMS]; TERMS];
        for row in 0..size {
            for column in 0..size {
                left[row][column] = scaled(terms[row], terms[column]);
            }
            inverse[row][row] = 1.0;
        }
        for pivot in 0..size {
            // The matrix is positive definite, so no rows need to change places.
            let divisor = left[pivot][pivot];
            if divisor < SINGULAR {
                return None;
            }
            for column in 0..size {
                left[pivot][column] /= divisor;
                inverse[pivot][column] /= divisor;
            }
            for row in (0..size).filter(|row| *row != pivot) {
                let factor = left[row][pivot];
                for column in 0..size {
                    left[row][column] -= factor * left[pivot][column];
                    inverse[row][column] -= factor * inverse[pivot][column];
                }
            }
        }
        let mut solution = Solution {
            coefficients: [0.0; TERMS],
            variances: [None; TERMS],
        };
        for row in 0..size {
            let term = terms[row];
            let sum: f64 = (0..size)
                .map(|column| {
                    inverse[row][column] * self.sums[terms[column]] / scale(terms[column])
                })
                .sum();
            let coefficient = sum / scale(term);
            if coefficient.is_nan() || coefficient <= 0.0 {
                return None;
            }
            solution.coefficients[term] = coefficient;
            solution.variances[term] = Some(inverse[row][row] / scale(term).powi(2));
        }
        Some(solution)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_term_that_would_be_negative_is_left_out() {
        let mut equations = NormalEquations::default();
        // Targets 1 at 0.5, 1, 2 of the first term and falling ones of the second.
        for (first, second) in [(0.5, 2.0), (1.0, 0.2), (2.0, 4.0)] {
            equations.add([first, second, 0.0]);
        }
        let solution = equations.solve().expect("a fit");
        assert!(solution.coefficients.iter().all(|value| *value >= 0.0));
        assert_eq!(solution.coefficients[2], 0.0, "a term without observations");
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
