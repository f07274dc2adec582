//! Fits in which a disturbed time has little weight.
//!
//! A residual is the logarithm of the predicted over the measured time, so that a time of twice the
//! prediction and one of half of it count alike. Huber's function limits the influence of each
//! residual (P. J. Huber, "Robust Estimation of a Location Parameter", 1964). The coefficients are
//! found by iteratively reweighted least squares.

use super::nonnegative::{NormalEquations, Solution, TERMS};

/// The limit of a residual in standard deviations. With 1.345, the estimates have 95 % of the
/// efficiency of least squares if residuals are normal: their variance is 1 / 0.95 of that of least
/// squares.
const LIMIT_IN_DEVIATIONS: f64 = 1.345;

/// The standard deviation of normal residuals over the median of their absolute values.
const DEVIATION_PER_MEDIAN: f64 = 1.4826;

/// The most repetitions, each with weights from the fit before.
const MOST_REPETITIONS: usize = 100;

/// The repetitions in which the limit is estimated anew. In the others it stays the same, so that
/// they converge.
const LIMIT_STAYS_AFTER: usize = 10;

/// The repetitions end when no coefficient changes by more than this part.
const CONVERGED: f64 = 1e-9;

/// Residuals below this are those of an exact fit.
const EXACT: f64 = 1e-9;

/// A fit of points.
pub(super) struct RobustFit {
    /// The coefficients.
    pub(super) solution: Solution,
    /// The variance of the residuals from which standard errors follow; `None` without degrees of
    /// freedom.
    pub(super) variance: Option<f64>,
    /// The degrees of freedom: points less coefficients.
    pub(super) freedom: f64,
}

/// Fits `points`, each of which has the terms of its cost divided by its time; `None` if there are
/// none.
pub(super) fn fit(points: &[[f64; TERMS]]) -> Option<RobustFit> {
    let mut solution = weighted(points, |_| 1.0)?;
    let mut limit = 0.0;
    for repetition in 0..MOST_REPETITIONS {
        if repetition < LIMIT_STAYS_AFTER {
            limit = LIMIT_IN_DEVIATIONS * deviation(points, &solution);
        }
        if limit < EXACT {
            break;
        }
        let next = weighted(points, |terms| weight(solution.predict(terms), limit))?;
        let has_converged = has_converged(&solution, &next);
        solution = next;
        if has_converged {
            break;
        }
    }
    Some(with_variances(points, solution, limit))
}

/// Returns the least squares of `points`, each with its weight.
fn weighted(points: &[[f64; TERMS]], weight: impl Fn(&[f64; TERMS]) -> f64) -> Option<Solution> {
    let mut equations = NormalEquations::default();
    for terms in points {
        equations.add_weighted(*terms, weight(terms));
    }
    equations.solve()
}

/// Returns the weight of a point whose predicted time is `ratio` times the measured one.
///
/// Huber's function ρ of the residual ln r has the derivative limited(ln r) / r by the prediction
/// r, and weighted least squares of r - 1 has w (r - 1). Equal derivatives have the same minimum,
/// so w = limited(ln r) / (r (r - 1)).
fn weight(ratio: f64, limit: f64) -> f64 {
    let difference = ratio - 1.0;
    if difference.abs() < EXACT {
        return 1.0;
    }
    limited(ratio.ln(), limit) / (ratio * difference)
}

/// Returns the derivative of Huber's function: the residual itself up to the limit.
fn limited(residual: f64, limit: f64) -> f64 {
    residual.clamp(-limit, limit)
}

/// Returns the standard deviation of the residuals, estimated from their median, which a few
/// disturbed times hardly change.
fn deviation(points: &[[f64; TERMS]], solution: &Solution) -> f64 {
    let mut residuals: Vec<f64> = points
        .iter()
        .map(|terms| solution.predict(terms).ln().abs())
        .collect();
    residuals.sort_by(f64::total_cmp);
    DEVIATION_PER_MEDIAN * residuals[residuals.len() / 2]
}

fn has_converged(last: &Solution, next: &Solution) -> bool {
    let mut pairs = last.coefficients.iter().zip(&next.coefficients);
    pairs.all(|(last, next)| (last - next).abs() <= CONVERGED * next.abs())
}

/// Adds the variances of the coefficients: the covariance of a regression with Huber's function (P.
/// J. Huber, "Robust Regression: Asymptotics, Conjectures and Monte Carlo", 1973). With ψ the
/// limited residuals and ψ' their derivative, it is that of least squares with the variance Σψ² /
/// (n - p) / mean(ψ')².
fn with_variances(points: &[[f64; TERMS]], solution: Solution, limit: f64) -> RobustFit {
    let used = solution.variances.iter().flatten().count();
    let freedom = points.len().saturating_sub(used) as f64;
    let limit = limit.max(EXACT);
    let mut equations = NormalEquations::default();
    let mut squares = 0.0;
    let mut within_limit = 0_u32;
    for terms in points {
        let ratio = solution.predict(terms);
        let residual = ratio.ln();
        squares += limited(residual, limit).powi(2);
        within_limit += u32::from(residual.abs() <= limit);
        // The derivative of the residual by the coefficients.
        equations.add(terms.map(|term| term / ratio));
    }
    let mean_derivative = f64::from(within_limit) / points.len() as f64;
    let has_variance = freedom > 0.0 && within_limit > 0;
    RobustFit {
        variance: has_variance.then(|| squares / freedom / mean_derivative.powi(2)),
        freedom,
        solution: equations.solve_terms_of(&solution).unwrap_or(solution),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two points on each number of steps from 2 to 21: 10 and 2 per step, multiplied by the factor
    /// of the point.
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
    fn times_twice_and_half_as_long_cancel() {
        // Least squares of predicted over measured time less 1 would give 0.59 of the true costs.
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
            at if at % 2 == 0 => 1.01,
            _ => 0.99,
        };
        let [constant, step, _] = coefficients(&points(disturb));
        for steps in [2.0, 10.0, 21.0] {
            let ratio = (constant + step * steps) / (10.0 + 2.0 * steps);
            assert!((ratio - 1.0).abs() < 0.02, "{steps}: {ratio}");
        }
    }
}
