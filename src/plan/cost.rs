//! [`CostFit`]: the costs of a series, how well they fit, and how sure a prediction is.

use std::collections::BTreeSet;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{
    measurements::{Point, Series, SeriesKey},
    nonnegative::TERMS,
    regimes::{Latency, Regime, Regimes, cells},
};
use crate::units::{Bytes, Micros};

/// Parts of which each is held out once to see how far predictions are off.
const FOLDS: usize = 10;

/// The fewest sizes of a series: with fewer, nothing is left to check a fit with.
pub(super) const FEWEST_SIZES: usize = 3;

/// The costs of a series.
#[derive(Clone, Debug)]
pub struct CostFit {
    /// What its rows have in common.
    pub key: SeriesKey,
    /// What was measured.
    pub points: Vec<Point>,
    /// The probability that intervals are made for.
    pub rate: f64,
    regimes: Regimes,
    /// How far predictions of points that were held out are off, for each regime.
    held_out: Vec<Vec<f64>>,
    /// The same where all points on a number of ranks were held out; empty with fewer than three numbers.
    across_ranks: Vec<f64>,
}

/// A coefficient, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// Its value.
    pub value: f64,
    /// Its interval by Student's t; `None` if nothing is left to tell it from.
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
    /// Rows.
    pub rows: usize,
    /// How latency grows with ranks; `None` if it was measured on one number of ranks.
    pub latency: Option<Latency>,
    /// The constant in µs; `None` if it is 0.
    pub constant_us: Option<Coefficient>,
    /// Latency of a step in µs; `None` if it is 0 or cannot be told from the constant.
    pub step_us: Option<Coefficient>,
    /// Bandwidth in GB/s as busbw counts it; `None` if the time does not grow with the size.
    #[serde(rename = "bandwidth_GBps")]
    pub bandwidth: Option<Coefficient>,
    /// The median of how far predictions of held-out rows are off, in percent.
    pub residual_median_pct: Option<f64>,
    /// The largest of them.
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
        let parts: Vec<usize> = cells
            .iter()
            .map(|(size, ranks)| (size + 3 * ranks) % FOLDS)
            .collect();
        for (point, error) in fit.errors_of_held_out(&parts) {
            let regime = fit.regimes.index_of(point.size);
            fit.held_out[regime].push(error);
        }
        if fit.measured_ranks().len() >= 3 {
            let parts: Vec<usize> = cells.iter().map(|(_, ranks)| *ranks).collect();
            let errors = fit.errors_of_held_out(&parts);
            fit.across_ranks = errors.into_iter().map(|(_, error)| error).collect();
        }
        Some(fit)
    }

    /// Holds each of `parts` out once, fits the others, regimes included, and returns how far the held-out points are off: the
    /// logarithm of the larger of both times over the smaller one.
    fn errors_of_held_out(&self, parts: &[usize]) -> Vec<(Point, f64)> {
        let mut errors = Vec::new();
        let names: BTreeSet<usize> = parts.iter().copied().collect();
        for name in names {
            let is_held_out = |part: &usize| *part == name;
            let both = || self.points.iter().zip(parts);
            let others: Vec<Point> = both()
                .filter(|(_, part)| !is_held_out(part))
                .map(|(point, _)| *point)
                .collect();
            let Some(regimes) = Regimes::fit(self.key.collective, &others) else {
                continue;
            };
            for (point, _) in both().filter(|(_, part)| is_held_out(part)) {
                let time = regimes.time(point.size, point.ranks, point.bus_bytes);
                errors.push((*point, (point.time.0 / time).ln().abs()));
            }
        }
        errors
    }

    /// Returns the numbers of ranks that were measured.
    pub fn measured_ranks(&self) -> BTreeSet<u64> {
        self.points.iter().map(|point| point.ranks).collect()
    }

    /// Returns the sizes that were measured.
    pub fn measured_sizes(&self) -> BTreeSet<Bytes> {
        self.points.iter().map(|point| point.size).collect()
    }

    /// Returns the time of an operation, and its interval; no interval if too few points were held out to tell it.
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

    /// Returns how far a prediction may be off at a size: by its regime, or by all if that has too few points.
    fn margin(&self, size: Bytes) -> Option<f64> {
        let own = &self.held_out[self.regimes.index_of(size)];
        let fewest = 2.0 / (1.0 - self.rate);
        if own.len() as f64 >= fewest {
            return quantile(own, self.rate);
        }
        quantile(&self.held_out.concat(), self.rate)
    }

    /// Returns whether an interval covers other numbers of ranks: whether enough of them were measured to hold one out.
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
            // An upper end that is infinite says nothing.
            .filter(|[low, _]| *low > 0.0)
            .map(|[low, high]| [bandwidth(high), bandwidth(low)]),
    }
}

/// Returns what a further error stays below with the probability `rate`, if it is as those before; `None` if there are too few.
fn quantile(errors: &[f64], rate: f64) -> Option<f64> {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    // The further one is equally likely at each place among them.
    let place = ((errors.len() as f64 + 1.0) * rate - 1e-9).ceil().max(1.0) as usize;
    errors.get(place - 1).copied()
}

/// The number of terms, which tables name one by one.
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
