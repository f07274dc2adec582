//! [`Regimes`]: the costs of a collective, which differ between ranges of sizes.
//!
//! NCCL uses different protocols for small, medium and large messages, and each has costs of its
//! own. `division` chooses how many regimes there are, and where they end.

use std::collections::BTreeSet;

use super::{
    division::divide,
    latency::Latency,
    measurements::Point,
    nonnegative::Solution,
    robust::{self, RobustFit},
    size_class::{SizeClass, size_classes},
};
use crate::{collective::Collective, units::Bytes};

/// A ring is taken if it makes the mean error smaller than this part of the error with a tree.
const WORTH_A_RING: f64 = 0.9;

/// A range of sizes and its costs.
#[derive(Clone, Debug)]
pub struct Regime {
    /// Its smallest measured size.
    pub first: Bytes,
    /// Its largest measured size.
    pub last: Bytes,
    /// The points in it.
    pub points: usize,
    /// The constant in µs, µs per step, and µs per byte that busbw counts.
    pub(super) solution: Solution,
    /// The variance of the residuals; `None` without degrees of freedom.
    pub(super) variance: Option<f64>,
    /// The degrees of freedom: points less coefficients.
    pub(super) freedom: f64,
}

/// The costs of a collective at all sizes.
#[derive(Clone, Debug)]
pub(super) struct Regimes {
    pub(super) collective: Collective,
    pub(super) latency: Latency,
    /// At least one, in the order of their sizes.
    pub(super) all: Vec<Regime>,
}

impl Regimes {
    /// Fits the costs of `collective` to `points`; `None` if they are too few.
    pub(super) fn fit(collective: Collective, points: &[Point]) -> Option<Regimes> {
        let ranks: BTreeSet<u64> = points.iter().map(|point| point.ranks).collect();
        let (tree, tree_error) = Regimes::with_latency(collective, Latency::Tree, points)?;
        // Any curve goes through two points.
        if ranks.len() < 3 {
            return Some(tree);
        }
        let ring = Regimes::with_latency(collective, Latency::Ring, points);
        match ring {
            Some((ring, ring_error)) if ring_error < WORTH_A_RING * tree_error => Some(ring),
            _ => Some(tree),
        }
    }

    /// Returns the costs, and the mean relative error of the points that were held out.
    fn with_latency(
        collective: Collective,
        latency: Latency,
        points: &[Point],
    ) -> Option<(Regimes, f64)> {
        let classes = size_classes(collective, latency, points);
        let division = divide(&classes);
        let mut all = Vec::new();
        let mut begin = 0;
        for end in division.ends {
            all.push(regime(&classes[begin..end])?);
            begin = end;
        }
        let regimes = Regimes {
            collective,
            latency,
            all,
        };
        Some((regimes, division.error / points.len() as f64))
    }

    /// Returns the index of the regime of `size`. Between two regimes, the geometric mean of their
    /// nearest sizes decides.
    pub(super) fn index_of(&self, size: Bytes) -> usize {
        let is_beyond = |neighbours: &&[Regime]| {
            let (last, next) = (neighbours[0].last.0 as f64, neighbours[1].first.0 as f64);
            size.0 as f64 > (last * next).sqrt()
        };
        self.all.windows(2).take_while(is_beyond).count()
    }

    /// Returns the predicted time in µs. `bus_bytes` are the bytes that busbw counts.
    pub(super) fn time(&self, size: Bytes, ranks: u64, bus_bytes: f64) -> f64 {
        let [constant, step, byte] = self.all[self.index_of(size)].solution.coefficients;
        constant + step * self.latency.steps(self.collective, ranks) + byte * bus_bytes
    }
}

/// Fits one regime to these sizes; `None` if that is not possible.
fn regime(classes: &[SizeClass]) -> Option<Regime> {
    let mut points = Vec::new();
    for class in classes {
        points.extend(class.points.iter().map(|(terms, _)| *terms));
    }
    let RobustFit {
        solution,
        variance,
        freedom,
    } = robust::fit(&points)?;
    Some(Regime {
        first: classes.first()?.size,
        last: classes.last()?.size,
        points: points.len(),
        solution,
        variance,
        freedom,
    })
}
