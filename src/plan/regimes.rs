//! [`Regimes`]: the ranges of sizes that have costs of their own, and those costs.
//!
//! NCCL runs small, middle and large messages by other protocols. How many regimes there are, and where they end, is chosen by
//! what was held out of the fit.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    measurements::Point,
    nonnegative::{NormalEquations, Solution, TERMS},
    robust::{self, RobustFit},
};
use crate::{collective::Collective, units::Bytes};

/// The most regimes: NCCL has three protocols.
const MOST_REGIMES: usize = 3;

/// The fewest sizes of a regime.
const FEWEST_SIZES: usize = 4;

/// The most distinct sizes between which a regime may end. Of more, only so many evenly spaced ones are tried.
const MOST_ENDS: usize = 40;

/// The most of them if there are more points than [`MANY_POINTS`], so that a plan does not take minutes.
const FEW_ENDS: usize = 12;

/// Points of which pairs of [`MOST_ENDS`] can be tried in seconds.
const MANY_POINTS: usize = 5000;

/// Parts of which each is held out once to choose regimes.
const FOLDS: usize = 5;

/// A further regime must make the mean error smaller than this part of what it was.
const WORTH_A_REGIME: f64 = 0.8;

/// A mean relative error that needs no further regime.
const GOOD_ENOUGH: f64 = 0.01;

/// Linear latency must make the mean error smaller than this part of what it was.
const WORTH_LINEAR: f64 = 0.9;

/// How the number of steps grows with the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// As along a tree, or as between all pairs at the same time: the steps of the collective.
    Tree,
    /// As along a ring: one step less than ranks.
    Ring,
}

/// A range of sizes and its costs.
#[derive(Clone, Debug)]
pub struct Regime {
    /// Its smallest measured size.
    pub first: Bytes,
    /// Its largest measured size.
    pub last: Bytes,
    /// The points in it.
    pub points: usize,
    /// The constant in µs, µs per step, and µs per byte; with how sure they are before their spread is known.
    pub(super) solution: Solution,
    /// The mean square of the residuals, over the degrees of freedom; `None` if none are left.
    pub(super) variance: Option<f64>,
    /// Degrees of freedom.
    pub(super) freedom: f64,
}

/// The costs of a collective at all sizes.
#[derive(Clone, Debug)]
pub(super) struct Regimes {
    pub(super) collective: Collective,
    pub(super) latency: Latency,
    /// In the order of their sizes; at least one.
    pub(super) all: Vec<Regime>,
}

/// The points of a size.
struct SizeClass {
    size: Bytes,
    /// The numbers of ranks, by their order.
    ranks: BTreeSet<usize>,
    /// The points, each with its terms and the part in which it is held out.
    points: Vec<([f64; TERMS], usize)>,
    /// The sums of each part.
    parts: [NormalEquations; FOLDS],
}

impl Latency {
    /// Returns the steps of `collective` on `ranks` ranks.
    pub fn steps(self, collective: Collective, ranks: u64) -> f64 {
        match self {
            Latency::Tree => (collective.spec().steps)(ranks as f64),
            Latency::Ring => ranks as f64 - 1.0,
        }
    }
}

/// Returns the number of ranks, and of sizes, that are smaller than those of each point.
pub(super) fn cells(points: &[Point]) -> Vec<(usize, usize)> {
    let sizes: BTreeSet<Bytes> = points.iter().map(|point| point.size).collect();
    let ranks: BTreeSet<u64> = points.iter().map(|point| point.ranks).collect();
    let sizes: Vec<Bytes> = sizes.into_iter().collect();
    let ranks: Vec<u64> = ranks.into_iter().collect();
    let cell = |point: &Point| {
        let size = sizes.partition_point(|size| *size < point.size);
        (size, ranks.partition_point(|ranks| *ranks < point.ranks))
    };
    points.iter().map(cell).collect()
}

impl Regimes {
    /// Fits the costs of `collective` to `points`; `None` if they are too few.
    pub(super) fn fit(collective: Collective, points: &[Point]) -> Option<Regimes> {
        let ranks: BTreeSet<u64> = points.iter().map(|point| point.ranks).collect();
        let (tree, error) = Regimes::with_latency(collective, Latency::Tree, points)?;
        // Two numbers of ranks lie on any curve.
        if ranks.len() < 3 {
            return Some(tree);
        }
        let ring = Regimes::with_latency(collective, Latency::Ring, points);
        match ring {
            Some((ring, smaller)) if smaller < WORTH_LINEAR * error => Some(ring),
            _ => Some(tree),
        }
    }

    /// Returns the costs and their mean error.
    fn with_latency(
        collective: Collective,
        latency: Latency,
        points: &[Point],
    ) -> Option<(Regimes, f64)> {
        let classes = size_classes(collective, latency, points);
        let (ends, error) = choose_ends(&classes)?;
        let mut all = Vec::new();
        let mut begin = 0;
        for end in ends {
            all.push(regime(&classes[begin..end])?);
            begin = end;
        }
        let regimes = Regimes {
            collective,
            latency,
            all,
        };
        Some((regimes, error / points.len() as f64))
    }

    /// Returns the regime of `size`: its own, or the one whose sizes are nearest, by ratio.
    pub(super) fn index_of(&self, size: Bytes) -> usize {
        let is_after = |pair: &[Regime]| {
            let (below, above) = (pair[0].last.0 as f64, pair[1].first.0 as f64);
            size.0 as f64 > (below * above).sqrt()
        };
        self.all
            .windows(2)
            .take_while(|pair| is_after(pair))
            .count()
    }

    /// Returns the time in µs.
    pub(super) fn time(&self, size: Bytes, ranks: u64, bus_bytes: f64) -> f64 {
        let [constant, step, byte] = self.all[self.index_of(size)].solution.coefficients;
        constant + step * self.latency.steps(self.collective, ranks) + byte * bus_bytes
    }
}

/// Returns the terms of a point whose coefficients are to make 1: residuals are then relative.
fn terms(collective: Collective, latency: Latency, point: &Point) -> [f64; TERMS] {
    let steps = latency.steps(collective, point.ranks);
    [1.0, steps, point.bus_bytes].map(|term| term / point.time.0)
}

fn size_classes(collective: Collective, latency: Latency, points: &[Point]) -> Vec<SizeClass> {
    let mut classes: Vec<SizeClass> = Vec::new();
    let mut order: Vec<(usize, usize, &Point)> = Vec::new();
    for ((size, ranks), point) in cells(points).into_iter().zip(points) {
        order.push((size, ranks, point));
    }
    order.sort_by_key(|(size, ranks, _)| (*size, *ranks));
    for (size, ranks, point) in order {
        if classes.len() == size {
            classes.push(SizeClass {
                size: point.size,
                ranks: BTreeSet::new(),
                points: Vec::new(),
                parts: [NormalEquations::default(); FOLDS],
            });
        }
        // All repetitions of a size on so many ranks are held out together.
        let part = (size + 2 * ranks) % FOLDS;
        let terms = terms(collective, latency, point);
        classes[size].ranks.insert(ranks);
        classes[size].points.push((terms, part));
        classes[size].parts[part].add(terms);
    }
    classes
}

/// Returns the sum of the relative errors of what is held out; `None` if a part cannot be fitted without it.
fn held_out_error(classes: &[SizeClass]) -> Option<f64> {
    let mut parts = [NormalEquations::default(); FOLDS];
    for class in classes {
        for (sum, part) in parts.iter_mut().zip(&class.parts) {
            sum.extend(part);
        }
    }
    let mut error = 0.0;
    for held_out in 0..FOLDS {
        let mut equations = NormalEquations::default();
        let others = parts.iter().enumerate();
        for (_, part) in others.filter(|(part, _)| *part != held_out) {
            equations.extend(part);
        }
        let points = classes.iter().flat_map(|class| &class.points);
        let mut points = points.filter(|(_, part)| *part == held_out).peekable();
        if points.peek().is_none() {
            continue;
        }
        let fit = equations.solve()?;
        error += points
            .map(|(terms, _)| (1.0 - fit.predict(terms)).abs().min(1.0))
            .sum::<f64>();
    }
    Some(error)
}

/// Returns where regimes end, as numbers of sizes, and the sum of their errors.
fn choose_ends(classes: &[SizeClass]) -> Option<(Vec<usize>, f64)> {
    let count = classes.len();
    let points: usize = classes.iter().map(|class| class.points.len()).sum();
    let whole = match held_out_error(classes) {
        Some(error) => error,
        // Too few to hold any out.
        None => return regime(classes).map(|_| (vec![count], points as f64)),
    };
    // With one number of ranks, a regime could not tell latency from the constant.
    let needs_two = are_on_several_numbers_of_ranks(classes);
    let error_between = |begin: usize, end: usize| {
        let classes = &classes[begin..end];
        let is_possible = classes.len() >= FEWEST_SIZES
            && (!needs_two || are_on_several_numbers_of_ranks(classes));
        is_possible.then(|| held_out_error(classes)).flatten()
    };
    // Every pair of ends takes a fit to all points between them.
    let most_ends = match points {
        0..=MANY_POINTS => MOST_ENDS,
        _ => FEW_ENDS,
    };
    let stride = count.div_ceil(most_ends).max(1);
    let possible: Vec<usize> = (0..=count)
        .filter(|end| end % stride == 0 || *end == count)
        .collect();
    // The best ends of so many regimes up to each end.
    let mut best: Vec<Option<(Vec<usize>, f64)>> = possible
        .iter()
        .map(|end| error_between(0, *end).map(|error| (vec![*end], error)))
        .collect();
    let mut errors = vec![vec![None; possible.len()]; possible.len()];
    for (from, begin) in possible.iter().enumerate() {
        for (to, end) in possible.iter().enumerate().skip(from + 1) {
            errors[from][to] = error_between(*begin, *end);
        }
    }
    let mut chosen = (vec![count], whole);
    for _ in 1..MOST_REGIMES {
        let mut next: Vec<Option<(Vec<usize>, f64)>> = vec![None; possible.len()];
        for (to, end) in possible.iter().enumerate() {
            for (before, errors) in best.iter().zip(&errors).take(to) {
                let (Some((ends, before)), Some(own)) = (before, errors[to]) else {
                    continue;
                };
                let error = before + own;
                if next[to].as_ref().is_none_or(|(_, least)| error < *least) {
                    let ends = ends.iter().chain([end]).copied().collect();
                    next[to] = Some((ends, error));
                }
            }
        }
        best = next;
        let Some(Some((ends, error))) = best.last() else {
            break;
        };
        let is_needed = chosen.1 > GOOD_ENOUGH * points as f64;
        if is_needed && *error < WORTH_A_REGIME * chosen.1 {
            chosen = (ends.clone(), *error);
        }
    }
    Some(chosen)
}

/// Returns whether these sizes were measured on two numbers of ranks, or more.
fn are_on_several_numbers_of_ranks(classes: &[SizeClass]) -> bool {
    let mut ranks = classes.iter().flat_map(|class| &class.ranks);
    match ranks.next() {
        Some(first) => ranks.any(|other| other != first),
        None => false,
    }
}

/// Fits one regime.
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
