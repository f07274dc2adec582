//! [`SizeClass`]: the points of one size, and how well a fit predicts those that were held out of
//! it.

use std::collections::BTreeSet;

use super::{
    latency::Latency,
    measurements::Point,
    nonnegative::{NormalEquations, TERMS},
};
use crate::{collective::Collective, units::Bytes};

/// The parts of the points, each of which is held out once to choose regimes.
const FOLDS: usize = 5;

/// A size and a number of ranks, each counted from 0 in the order of those that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) size: usize,
    pub(super) ranks: usize,
}

/// The points of one size.
pub(super) struct SizeClass {
    pub(super) size: Bytes,
    /// The numbers of ranks, as in [`Cell`].
    pub(super) ranks: BTreeSet<usize>,
    /// The terms of each point, and the part with which it is held out.
    pub(super) points: Vec<([f64; TERMS], usize)>,
    /// The sums over the points of each part.
    parts: [NormalEquations; FOLDS],
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

/// Returns the terms of a point, divided by its time. Their sum, each times its coefficient, is the
/// predicted over the measured time.
fn terms(collective: Collective, latency: Latency, point: &Point) -> [f64; TERMS] {
    let steps = latency.steps(collective, point.ranks);
    [1.0, steps, point.bus_bytes].map(|term| term / point.time.0)
}

/// Returns the points by size, the smallest first.
pub(super) fn size_classes(
    collective: Collective,
    latency: Latency,
    points: &[Point],
) -> Vec<SizeClass> {
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

/// Holds each part out once, fits one regime to the others, and returns the sum of the relative
/// errors of its predictions, each 1 at most; `None` if a fit is not possible.
pub(super) fn held_out_error(classes: &[SizeClass]) -> Option<f64> {
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

/// Returns whether these sizes were measured on more than one number of ranks.
pub(super) fn are_on_several_numbers_of_ranks(classes: &[SizeClass]) -> bool {
    let mut ranks = classes.iter().flat_map(|class| &class.ranks);
    match ranks.next() {
        Some(first) => ranks.any(|other| other != first),
        None => false,
    }
}
