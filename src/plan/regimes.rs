//! [`Regimes`]: ranges of sizes, and the costs of a collective in each.
//!
//! NCCL uses different protocols for small, medium and large messages, and each has costs of its own. How many regimes there are, and
//! where they end, is chosen by cross-validation: which division predicts best what was held out of the fit.

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

/// The most sizes that are tried as the end of a regime. If there are more, evenly spaced ones are tried.
const MOST_ENDS: usize = 40;

/// The same if there are more points than [`MANY_POINTS`], so that a plan does not take minutes.
const FEW_ENDS: usize = 12;

/// The most points for which fits between all pairs of [`MOST_ENDS`] take seconds.
const MANY_POINTS: usize = 5000;

/// The parts of the points, each of which is held out once to choose regimes.
const FOLDS: usize = 5;

/// A further regime is taken if it makes the mean error smaller than this part of the error without it.
const WORTH_A_REGIME: f64 = 0.8;

/// A mean relative error with which no further regime is looked for.
const GOOD_ENOUGH: f64 = 0.01;

/// A ring is taken if it makes the mean error smaller than this part of the error with a tree.
const WORTH_A_RING: f64 = 0.9;

/// How the number of steps of a collective grows with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// As along a tree; a single step for collectives of sends and receives, which all run at the same time.
    Tree,
    /// As along a ring: n - 1 steps on n ranks, and for an all_reduce, which goes round twice, 2 (n - 1).
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

/// A size and a number of ranks, each counted from 0 in the order of those that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) size: usize,
    pub(super) ranks: usize,
}

/// The points of one size.
struct SizeClass {
    size: Bytes,
    /// The numbers of ranks, as in [`Cell`].
    ranks: BTreeSet<usize>,
    /// The terms of each point, and the part with which it is held out.
    points: Vec<([f64; TERMS], usize)>,
    /// The sums over the points of each part.
    parts: [NormalEquations; FOLDS],
}

impl Latency {
    /// Returns the steps of `collective` on `ranks` ranks.
    pub fn steps(self, collective: Collective, ranks: u64) -> f64 {
        match self {
            Latency::Tree => (collective.spec().steps)(ranks as f64),
            Latency::Ring if collective == Collective::AllReduce => 2.0 * (ranks as f64 - 1.0),
            Latency::Ring => ranks as f64 - 1.0,
        }
    }
}

/// Returns the cell of each point.
pub(super) fn cells(points: &[Point]) -> Vec<Cell> {
    let sizes: BTreeSet<Bytes> = points.iter().map(|point| point.size).collect();
    let ranks: BTreeSet<u64> = points.iter().map(|point| point.ranks).collect();
    let sizes: Vec<Bytes> = sizes.into_iter().collect();
    let ranks: Vec<u64> = ranks.into_iter().collect();
    let cell = |point: &Point| Cell {
        size: sizes.partition_point(|size| *size < point.size),
        ranks: ranks.partition_point(|ranks| *ranks < point.ranks),
    };
    points.iter().map(cell).collect()
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
        let division = divide(&classes)?;
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

    /// Returns the index of the regime of `size`. Between two regimes, the geometric mean of their nearest sizes decides.
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

/// Returns the terms of a point, divided by its time. Their sum, each times its coefficient, is the predicted over the measured time.
fn terms(collective: Collective, latency: Latency, point: &Point) -> [f64; TERMS] {
    let steps = latency.steps(collective, point.ranks);
    [1.0, steps, point.bus_bytes].map(|term| term / point.time.0)
}

/// Returns the points by size, the smallest first.
fn size_classes(collective: Collective, latency: Latency, points: &[Point]) -> Vec<SizeClass> {
    let mut order: Vec<(Cell, &Point)> = cells(points).into_iter().zip(points).collect();
    order.sort_by_key(|(cell, _)| *cell);
    let mut classes: Vec<SizeClass> = Vec::new();
    for (cell, point) in order {
        if classes.len() == cell.size {
            classes.push(SizeClass {
                size: point.size,
                ranks: BTreeSet::new(),
                points: Vec::new(),
                parts: [NormalEquations::default(); FOLDS],
            });
        }
        // All repetitions in a cell are held out together.
        let part = (cell.size + 2 * cell.ranks) % FOLDS;
        let terms = terms(collective, latency, point);
        let class = &mut classes[cell.size];
        class.ranks.insert(cell.ranks);
        class.points.push((terms, part));
        class.parts[part].add(terms);
    }
    classes
}

/// Holds each part out once, fits one regime to the others, and returns the sum of the relative errors of its predictions, each
/// 1 at most; `None` if a fit is not possible.
fn held_out_error(classes: &[SizeClass]) -> Option<f64> {
    let mut parts = [NormalEquations::default(); FOLDS];
    for class in classes {
        for (sum, part) in parts.iter_mut().zip(&class.parts) {
            sum.extend(part);
        }
    }
    let mut error = 0.0;
    for held_out in 0..FOLDS {
        let points = classes.iter().flat_map(|class| &class.points);
        let mut points = points.filter(|(_, part)| *part == held_out).peekable();
        if points.peek().is_none() {
            continue;
        }
        let mut others = NormalEquations::default();
        for (part, sums) in parts.iter().enumerate() {
            if part != held_out {
                others.extend(sums);
            }
        }
        let fit = others.solve()?;
        for (terms, _) in points {
            error += (1.0 - fit.predict(terms)).abs().min(1.0);
        }
    }
    Some(error)
}

/// Sizes that are divided into regimes.
#[derive(Clone)]
struct SizeDivision {
    /// Where each regime ends: the number of sizes up to there.
    ends: Vec<usize>,
    /// The sum of the errors of the points that were held out.
    error: f64,
}

/// Returns the division with the least error of held-out points, as far as a further regime is worth it; `None` if no fit is possible.
fn divide(classes: &[SizeClass]) -> Option<SizeDivision> {
    let points: usize = classes.iter().map(|class| class.points.len()).sum();
    let whole = |error: f64| SizeDivision {
        ends: vec![classes.len()],
        error,
    };
    let Some(error) = held_out_error(classes) else {
        // Too few points to hold any out.
        return regime(classes).map(|_| whole(points as f64));
    };
    let mut chosen = whole(error);
    let candidates = RegimeCandidates::new(classes, points);
    let mut divisions = candidates.one_regime();
    for _ in 1..MOST_REGIMES {
        divisions = candidates.one_regime_more(&divisions);
        let Some(Some(all_sizes)) = divisions.last() else {
            break;
        };
        let is_needed = chosen.error > GOOD_ENOUGH * points as f64;
        if is_needed && all_sizes.error < WORTH_A_REGIME * chosen.error {
            chosen = all_sizes.clone();
        }
    }
    Some(chosen)
}

/// The regimes that a division may have.
struct RegimeCandidates {
    /// Where regimes may begin and end: the number of sizes before. The first is 0, the last the number of all sizes.
    borders: Vec<usize>,
    /// `errors[from][to]` is the error of held-out points in a regime between two borders; `None` if there can be none.
    errors: Vec<Vec<Option<f64>>>,
}

impl RegimeCandidates {
    fn new(classes: &[SizeClass], points: usize) -> RegimeCandidates {
        // On one number of ranks, a regime could not tell latency from the constant.
        let needs_several = are_on_several_numbers_of_ranks(classes);
        let borders = borders(classes.len(), points);
        let mut errors = vec![vec![None; borders.len()]; borders.len()];
        for (from, begin) in borders.iter().enumerate() {
            for (to, end) in borders.iter().enumerate().skip(from + 1) {
                let classes = &classes[*begin..*end];
                let has_ranks = !needs_several || are_on_several_numbers_of_ranks(classes);
                if classes.len() >= FEWEST_SIZES && has_ranks {
                    errors[from][to] = held_out_error(classes);
                }
            }
        }
        RegimeCandidates { borders, errors }
    }

    /// Returns, for each border, the sizes before it as one regime.
    fn one_regime(&self) -> Vec<Option<SizeDivision>> {
        let mut divisions = Vec::new();
        for (end, error) in self.borders.iter().zip(&self.errors[0]) {
            divisions.push(error.map(|error| SizeDivision {
                ends: vec![*end],
                error,
            }));
        }
        divisions
    }

    /// Returns, for each border, the best division of the sizes before it into one regime more than those of `fewer` have.
    fn one_regime_more(&self, fewer: &[Option<SizeDivision>]) -> Vec<Option<SizeDivision>> {
        let mut divisions = Vec::new();
        for (to, end) in self.borders.iter().enumerate() {
            let mut best: Option<SizeDivision> = None;
            for (before, errors) in fewer.iter().zip(&self.errors).take(to) {
                let (Some(before), Some(error)) = (before, errors[to]) else {
                    continue;
                };
                let error = before.error + error;
                if best.as_ref().is_none_or(|best| error < best.error) {
                    let mut ends = before.ends.clone();
                    ends.push(*end);
                    best = Some(SizeDivision { ends, error });
                }
            }
            divisions.push(best);
        }
        divisions
    }
}

/// Returns where regimes may begin and end, evenly spaced among the sizes. There are few, because a fit is made for each pair.
fn borders(sizes: usize, points: usize) -> Vec<usize> {
    let most_ends = if points > MANY_POINTS {
        FEW_ENDS
    } else {
        MOST_ENDS
    };
    let stride = sizes.div_ceil(most_ends).max(1);
    let is_border = |end: &usize| end.is_multiple_of(stride) || *end == sizes;
    (0..=sizes).filter(is_border).collect()
}

/// Returns whether these sizes were measured on more than one number of ranks.
fn are_on_several_numbers_of_ranks(classes: &[SizeClass]) -> bool {
    let mut ranks = classes.iter().flat_map(|class| &class.ranks);
    match ranks.next() {
        Some(first) => ranks.any(|other| other != first),
        None => false,
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
