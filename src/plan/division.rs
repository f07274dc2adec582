//! [`SizeDivision`]: where the ranges of sizes end that have costs of their own, chosen by
//! cross-validation.

use super::size_class::{SizeClass, are_on_several_numbers_of_ranks, held_out_error};

/// The most regimes: NCCL has three protocols.
const MOST_REGIMES: usize = 3;

/// The fewest sizes of a regime.
const FEWEST_SIZES: usize = 4;

/// The most sizes that are tried as the end of a regime. If there are more, evenly spaced ones are
/// tried.
const MOST_ENDS: usize = 40;

/// The same if there are more points than [`MANY_POINTS`], so that a plan does not take minutes.
const FEW_ENDS: usize = 12;

/// The most points for which fits between all pairs of [`MOST_ENDS`] take seconds.
const MANY_POINTS: usize = 5000;

/// A further regime is taken if it makes the mean error smaller than this part of the error without
/// it.
const WORTH_A_REGIME: f64 = 0.8;

/// A mean relative error with which no further regime is looked for.
const GOOD_ENOUGH: f64 = 0.01;

/// Sizes that are divided into regimes.
#[derive(Clone)]
pub(super) struct SizeDivision {
    /// Where each regime ends: the number of sizes up to there.
    pub(super) ends: Vec<usize>,
    /// The sum of the errors of the points that were held out.
    pub(super) error: f64,
}

/// Returns the division with the least error of held-out points, as far as a further regime is
/// worth it. If too few points are there to hold any out, all sizes are one regime, and the error
/// of each point counts as 1.
pub(super) fn divide(classes: &[SizeClass]) -> SizeDivision {
    let points: usize = classes.iter().map(|class| class.points.len()).sum();
    let whole = |error: f64| SizeDivision {
        ends: vec![classes.len()],
        error,
    };
    let Some(error) = held_out_error(classes) else {
        return whole(points as f64);
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
    chosen
}

/// The regimes that a division may have.
struct RegimeCandidates {
    /// Where regimes may begin and end: the number of sizes before. The first is 0, the last the
    /// number of all sizes.
    borders: Vec<usize>,
    /// `errors[from][to]` is the error of held-out points in a regime between two borders; `None`
    /// if there can be none.
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

    /// Returns, for each border, the best division of the sizes before it into one regime more than
    /// those of `fewer` have.
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

/// Returns where regimes may begin and end, evenly spaced among the sizes. There are few, because a
/// fit is made for each pair.
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
