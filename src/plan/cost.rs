//! [`CostFit`]: the costs of a series, how well they fit, and how far predictions may be off.

use std::collections::BTreeSet;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{
    latency::Latency,
    measurements::{Point, Series, SeriesKey},
    nonnegative::TERMS,
    regimes::{Regime, Regimes},
    size_class::{Cell, cells},
};
use crate::units::{Bytes, Micros};

/// The parts of the points, each of which is held out once to see how far predictions are off.
const FOLDS: usize = 10;

/// The fewest sizes of a series: with fewer, no size is left to check the fit with.
pub(super) const FEWEST_SIZES: usize = 3;

/// The costs of a series.
#[derive(Clone, Debug)]
pub struct CostFit {
    /// The series.
    pub key: SeriesKey,
    /// The measured points.
    pub points: Vec<Point>,
    /// The probability of intervals, such as 0.9.
    pub rate: f64,
    regimes: Regimes,
    /// For each regime, the prediction errors of points that were held out.
    held_out: Vec<Vec<f64>>,
    /// The prediction errors if all points on one number of ranks are held out together; empty with
    /// fewer than three numbers.
    across_ranks: Vec<f64>,
}

/// A point that was held out of a fit.
struct HeldOut {
    point: Point,
    /// How far its prediction is off: the logarithm of the larger of predicted and measured time
    /// over the smaller.
    error: f64,
}

/// A coefficient of a fit, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// The value.
    pub value: f64,
    /// The interval by Student's t; `None` without degrees of freedom.
    pub interval: Option<[f64; 2]>,
}

/// The costs of a series in one range of sizes, for tables and JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The series.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The smallest measured size.
    pub first_bytes: Bytes,
    /// The largest measured size.
    pub last_bytes: Bytes,
    /// The number of rows.
    pub rows: usize,
    /// How the number of steps grows with ranks; `None` if only one number of ranks was measured.
    pub latency: Option<Latency>,
    /// The constant in µs; `None` if it is 0.
    pub constant_us: Option<Coefficient>,
    /// The latency of a step in µs; `None` if it is 0 or cannot be told from the constant.
    pub step_us: Option<Coefficient>,
    /// The bandwidth in GB/s as busbw counts it; `None` if the time does not grow with the size.
    #[serde(rename = "bandwidth_GBps")]
    pub bandwidth: Option<Coefficient>,
    /// The median prediction error of rows that were held out, in percent.
    pub residual_median_pct: Option<f64>,
    /// The largest of these errors, in percent.
    pub residual_largest_pct: Option<f64>,
}

impl CostFit {
    /// Fits the costs of `series`, with intervals at `rate`; `None` if there are too few sizes.
    pub fn new(series: &Series, rate: f64) -> Option<CostFit> {
        let sizes: BTreeSet<Bytes> = series.points.iter().map(|point| point.size).collect();
        if sizes.len() < FEWEST_SIZES {
            return None;
        }
        let collective = series.key.collective;
        let regimes = Regimes::fit(collective, &series.points)?;
        let mut fit = CostFit {
            key: series.key.clone(),
            points: series.points.clone(),
            rate,
            held_out: vec![Vec::new(); regimes.all.len()],
            across_ranks: Vec::new(),
            regimes,
        };
        let cells = cells(&series.points);
        let tenth = |cell: &Cell| (cell.size + 3 * cell.ranks) % FOLDS;
        let tenths: Vec<usize> = cells.iter().map(tenth).collect();
        for HeldOut { point, error } in fit.hold_out_each(&tenths) {
            let regime = fit.regimes.index_of(point.size);
            fit.held_out[regime].push(error);
        }
        if fit.measured_ranks().len() >= 3 {
            let ranks: Vec<usize> = cells.iter().map(|cell| cell.ranks).collect();
            let held_out = fit.hold_out_each(&ranks);
            fit.across_ranks = held_out.iter().map(|held_out| held_out.error).collect();
        }
        Some(fit)
    }

    /// Predicts the points of each part from a fit to all other parts, with regimes of its own.
    /// `parts` has the part of each point.
    fn hold_out_each(&self, parts: &[usize]) -> Vec<HeldOut> {
        let mut all = Vec::new();
        let names: BTreeSet<usize> = parts.iter().copied().collect();
        for name in names {
            let mut held_out = Vec::new();
            let mut others = Vec::new();
            for (point, part) in self.points.iter().zip(parts) {
                if *part == name {
                    held_out.push(*point);
                } else {
                    others.push(*point);
                }
            }
            let Some(regimes) = Regimes::fit(self.key.collective, &others) else {
                continue;
            };
            for point in held_out {
                let time = regimes.time(point.size, point.ranks, point.bus_bytes);
                let error = (point.time.0 / time).ln().abs();
                all.push(HeldOut { point, error });
            }
        }
        all
    }

    /// Returns the numbers of ranks that were measured.
    pub fn measured_ranks(&self) -> BTreeSet<u64> {
        self.points.iter().map(|point| point.ranks).collect()
    }

    /// Returns the sizes that were measured.
    pub fn measured_sizes(&self) -> BTreeSet<Bytes> {
        self.points.iter().map(|point| point.size).collect()
    }

    /// Returns the predicted time of an operation, and its interval in µs; `None` if too few points
    /// were held out for one.
    pub(super) fn time(
        &self,
        size: Bytes,
        ranks: u64,
        bus_bytes: f64,
    ) -> (Micros, Option<[f64; 2]>) {
        let time = self.regimes.time(size, ranks, bus_bytes);
        let own = self.margin(size);
        let margin = if self.measured_ranks().contains(&ranks) || self.across_ranks.is_empty() {
            own
        } else {
            let across = quantile(&self.across_ranks, self.rate);
            own.zip(across).map(|(own, across)| own.max(across))
        };
        let interval = margin.map(|margin| [time / margin.exp(), time * margin.exp()]);
        (Micros(time), interval)
    }

    /// Returns how far a prediction at a size may be off, as the logarithm of a ratio: by the
    /// errors of its regime, or of all regimes if it has too few.
    fn margin(&self, size: Bytes) -> Option<f64> {
        let own = &self.held_out[self.regimes.index_of(size)];
        let fewest = 2.0 / (1.0 - self.rate);
        if own.len() as f64 >= fewest {
            return quantile(own, self.rate);
        }
        quantile(&self.held_out.concat(), self.rate)
    }

    /// Returns whether intervals cover other numbers of ranks, for which at least three must have
    /// been measured.
    pub fn knows_other_ranks(&self) -> bool {
        !self.across_ranks.is_empty()
    }

    /// Returns the costs by range of sizes.
    pub fn costs(&self) -> Vec<Cost> {
        let regimes = self.regimes.all.iter().zip(&self.held_out);
        regimes
            .map(|(regime, errors)| self.cost(regime, errors))
            .collect()
    }

    fn cost(&self, regime: &Regime, errors: &[f64]) -> Cost {
        let of = |term: usize| self.coefficient(regime, term);
        let percent = |error: f64| 100.0 * error.exp_m1();
        let mut errors = errors.to_vec();
        errors.sort_by(f64::total_cmp);
        let has_latency = self.measured_ranks().len() > 1;
        Cost {
            key: self.key.clone(),
            first_bytes: regime.first,
            last_bytes: regime.last,
            rows: regime.points,
            latency: has_latency.then_some(self.regimes.latency),
            constant_us: of(0),
            step_us: of(1),
            bandwidth: of(2).map(inverse),
            residual_median_pct: errors.get(errors.len() / 2).copied().map(percent),
            residual_largest_pct: errors.last().copied().map(percent),
        }
    }

    fn coefficient(&self, regime: &Regime, term: usize) -> Option<Coefficient> {
        let value = regime.solution.coefficients[term];
        let unscaled = regime.solution.variances[term]?;
        let interval = regime.variance.and_then(|variance| {
            let student = StudentsT::new(0.0, 1.0, regime.freedom).ok()?;
            let half = student.inverse_cdf(0.5 + self.rate / 2.0) * (variance * unscaled).sqrt();
            Some([(value - half).max(0.0), value + half])
        });
        Some(Coefficient { value, interval })
    }
}

/// Returns a bandwidth in GB/s from µs per byte.
fn inverse(coefficient: Coefficient) -> Coefficient {
    let bandwidth = |cost: f64| 1e-3 / cost;
    Coefficient {
        value: bandwidth(coefficient.value),
        interval: coefficient
            .interval
            // A cost that may be 0 would be an infinite bandwidth, which says nothing.
            .filter(|[low, _]| *low > 0.0)
            .map(|[low, high]| [bandwidth(high), bandwidth(low)]),
    }
}

/// Returns the value that a further error does not exceed with the probability `rate`, if it is
/// like `errors`; `None` if there are too few errors.
fn quantile(errors: &[f64], rate: f64) -> Option<f64> {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    // Sorted with n others, the further error is equally likely to be at each of n + 1 places.
    let place = (errors.len() as f64 + 1.0) * rate;
    // A product that rounding makes a little larger than a whole number must not count as the next
    // one.
    let place = (place - 1e-9).ceil().max(1.0) as usize;
    errors.get(place - 1).copied()
}

// Costs name the three terms one by one.
const _: () = assert!(TERMS == 3);

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_quantile_needs_enough_errors() {
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(quantile(&nine, 0.9), Some(9.0));
        assert_eq!(quantile(&nine[..8], 0.9), None);
        assert_eq!(quantile(&nine, 0.5), Some(5.0));
        let many: Vec<f64> = (1..=99).map(f64::from).collect();
        assert_eq!(quantile(&many, 0.9), Some(90.0));
    }
}
