//! Fits of relative residuals in which a disturbed time counts little.
//!
//! A residual is the logarithm of the predicted over the measured time, so that a time of twice the prediction and one of half of it
//! count alike, and Huber's function limits what a single one counts (P. J. Huber, Robust Estimation of a Location
//! Parameter, 1964). The coefficients are found by iteratively reweighted least squares.

use super::nonnegative::{NormalEquations, Solution, TERMS};

/// The residuals that count in full, as a multiple of their standard deviation: for times without disturbances, intervals are then 5 %
/// wider than those of least squares in variance.
const FULL_WITHIN: f64 = 1.345;

/// What the median of the absolute values of normal residuals is to be multiplied by to give their standard deviation.
const DEVIATION_PER_MEDIAN: f64 = 1.4826;

/// The most repetitions, each with the weights that follow from the one before.
const MOST_REPETITIONS: usize = 100;

/// After so many repetitions the limit of a residual stays, so that the rest converges.
const LIMIT_STAYS_AFTER: usize = 10;

/// A relative change of all coefficients that ends the repetitions.
const CONVERGED: f64 = 1e-9;

/// Residuals below which the fit is exact.
const EXACT: f64 = 1e-9;

/// Coefficients, and how far the times are off.
pub(super) struct RobustFit {
    pub(super) solution: Solution,
    /// The mean square of the residuals over the degrees of freedom, as a standard error counts it; `None` if none are left.
    pub(super) variance: Option<f64>,
    /// Degrees of freedom.
    pub(super) freedom: f64,
}

/// Fits `points`: the terms of each, divided by its time, so that the coefficients are to make 1. `None` if there are none.
pub(super) fn fit(points: &[[f64; TERMS]]) -> Option<RobustFit> {
    let mut solution = weighted(points, |_| 1.0)?;
    let mut limit = 0.0;
    for repetition in 0..MOST_REPETITIONS {
        if repetition < LIMIT_STAYS_AFTER {
            limit = FULL_WITHIN * deviation(points, &solution);
        }
        if limit < EXACT {
            break;
        }
        let next = weighted(points, |terms| weight(solution.predict(terms), limit))?;
        let is_near = is_near(&solution, &next);
        solution = next;
        if is_near {
            break;
        }
    }
    Some(with_spread(points, solution, limit))
}

/// Returns the least squares of `points`, each with its weight.
fn weighted(points: &[[f64; TERMS]], weight: impl Fn(&[f64; TERMS]) -> f64) -> Option<Solution> {
    let mut equations = NormalEquations::default();
    for terms in points {
        equations.add_weighted(*terms, weight(terms));
    }
    equations.solve()
}

/// Returns the weight at which least squares of `ratio - 1` have the minimum where the limited residuals have theirs.
/// `ratio` is that of the predicted over the measured time.
fn weight(ratio: f64, limit: f64) -> f64 {
    let difference = ratio - 1.0;
    if difference.abs() < EXACT {
        return 1.0;
    }
    limited(ratio.ln(), limit) / (ratio * difference)
}

fn limited(residual: f64, limit: f64) -> f64 {
    residual.clamp(-limit, limit)
}

/// Returns the standard deviation of the residuals, from their median, which disturbed times do not change much.
fn deviation(points: &[[f64; TERMS]], solution: &Solution) -> f64 {
    let mut sizes: Vec<f64> = points
        .iter()
        .map(|terms| solution.predict(terms).ln().abs())
        .collect();
    sizes.sort_by(f64::total_cmp);
    DEVIATION_PER_MEDIAN * sizes[sizes.len() / 2]
}

fn is_near(last: &Solution, next: &Solution) -> bool {
    let pairs = last.coefficients.iter().zip(&next.coefficients);
    pairs
        .into_iter()
        .all(|(last, next)| (last - next).abs() <= CONVERGED * next.abs())
}

/// Adds how sure the coefficients are: P. J. Huber's covariance of a regression with limited residuals.
fn with_spread(points: &[[f64; TERMS]], solution: Solution, limit: f64) -> RobustFit {
    let used = solution.variances.iter().flatten().count();
    let freedom = points.len().saturating_sub(used) as f64;
    let mut equations = NormalEquations::default();
    let (mut squares, mut in_full) = (0.0, 0.0);
    for terms in points {
        let ratio = solution.predict(terms);
        let residual = ratio.ln();
        squares += limited(residual, limit.max(EXACT)).powi(2);
        in_full += f64::from(u8::from(residual.abs() <= limit.max(EXACT)));
        // The derivative of a residual by the coefficients.
        equations.add(terms.map(|term| term / ratio));
    }
    let share_in_full = in_full / points.len() as f64;
    let has_spread = freedom > 0.0 && share_in_full > 0.0;
    RobustFit {
        variance: has_spread.then(|| squares / freedom / share_in_full.powi(2)),
        freedom,
        solution: equations.solve_terms_of(&solution).unwrap_or(solution),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A constant of 10 and 2 per step, twice on 2 to 21 steps, with what each time is multiplied by.
    fn points(disturb: impl Fn(usize) -> f64) -> Vec<[f64; TERMS]> {
        let point = |at: usize| {
            let steps = (2 + at / 2) as f64;
            let time = (10.0 + 2.0 * steps) * disturb(at);
            [1.0 / time, steps / time, 0.0]
        };
        (0..40).map(point).collect()
    }

    fn coefficients(points: &[[f64; TERMS]]) -> [f64; TERMS] {
        fit(points).expect("a fit").solution.coefficients
    }

    #[test]
    fn exact_times_are_fitted_exactly() {
        let [constant, step, byte] = coefficients(&points(|_| 1.0));
        assert!((constant - 10.0).abs() < 1e-6, "{constant}");
        assert!((step - 2.0).abs() < 1e-6, "{step}");
        assert_eq!(byte, 0.0);
    }

    #[test]
    fn times_too_long_and_too_short_by_a_factor_cancel() {
        // Least squares of relative residuals would be at 0.8.
        let [constant, step, _] = coefficients(&points(|at| if at % 2 == 0 { 2.0 } else { 0.5 }));
        for steps in [2.0, 10.0, 21.0] {
            let ratio = (constant + step * steps) / (10.0 + 2.0 * steps);
            assert!((ratio - 1.0).abs() < 1e-3, "{steps}: {ratio}");
        }
    }

    #[test]
    fn a_few_disturbed_times_change_little() {
        // Every eighth takes fifty times as long, the others differ by 1 %.
        let disturb = |at: usize| match at % 8 {
            3 => 50.0,
            even if even % 2 == 0 => 1.01,
            _ => 0.99,
        };
        let [constant, step, _] = coefficients(&points(disturb));
        for steps in [2.0, 10.0, 21.0] {
            let ratio = (constant + step * steps) / (10.0 + 2.0 * steps);
            assert!((ratio - 1.0).abs() < 0.02, "{steps}: {ratio}");
        }
    }
}
