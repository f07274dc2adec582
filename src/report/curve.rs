//! [`Curve`]: samples over time, whose memory does not grow with the time, and [`Quantity`], the
//! curves of one plot.

use super::plot::{MOST_LINES, PlotLine, PlotPoint};

/// Points of a curve.
const MOST_BINS: usize = 240;

/// The curves of one quantity in one run.
pub(super) struct Quantity {
    /// Its name, with the unit.
    pub(super) name: &'static str,
    /// What a curve is of, as a noun.
    pub(super) noun: &'static str,
    pub(super) lines: Vec<PlotLine>,
    /// By line: the least, the mean and the most of all samples.
    pub(super) extents: Vec<Summary>,
    /// What was left out; empty if nothing was.
    pub(super) thinned: String,
}

/// What a curve amounts to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) low: f64,
    pub(super) mean: f64,
    pub(super) high: f64,
    pub(super) samples: u64,
}

/// Sums of samples over equal parts of the time. The parts grow with the time, so that memory does
/// not.
pub(super) struct Curve {
    width: f64,
    bins: Vec<(f64, u64)>,
    summary: Summary,
}

impl Quantity {
    /// Returns the plot of these curves, each with its label; `None` if there is none.
    pub(super) fn new<'a>(
        name: &'static str,
        noun: &'static str,
        curves: impl Iterator<Item = (String, &'a Curve)>,
    ) -> Option<Quantity> {
        let (mut lines, mut extents) = (Vec::new(), Vec::new());
        for (label, curve) in curves {
            lines.push(curve.line(label));
            extents.push(curve.summary);
        }
        (!lines.is_empty()).then(|| Quantity {
            name,
            noun,
            thinned: thinned(lines.len(), noun),
            lines,
            extents,
        })
    }

    /// Returns the curves that are drawn: all, or those with the lowest and the highest means.
    pub(super) fn drawn(&self) -> Vec<PlotLine> {
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        if order.len() > MOST_LINES {
            order.sort_by(|a, b| self.extents[*a].mean.total_cmp(&self.extents[*b].mean));
            let upper = order.len() - MOST_LINES / 2;
            order.drain(MOST_LINES / 2..upper);
        }
        order.into_iter().map(|at| self.lines[at].clone()).collect()
    }
}

fn thinned(lines: usize, noun: &str) -> String {
    let mut sentence =
        format!("Each point is the mean of one of at most {MOST_BINS} equal parts of the time.");
    if lines > MOST_LINES {
        sentence += &format!(
            " {MOST_LINES} of {lines} {noun}s are drawn: those with the lowest and the highest \
             means."
        );
    }
    sentence
}

impl Curve {
    /// Returns a curve without samples.
    pub(super) fn new() -> Curve {
        Curve {
            width: 0.1,
            bins: Vec::new(),
            summary: Summary {
                low: f64::INFINITY,
                mean: 0.0,
                high: f64::NEG_INFINITY,
                samples: 0,
            },
        }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, seconds: f64, value: f64) {
        if !seconds.is_finite() || seconds < 0.0 {
            return;
        }
        while seconds / self.width >= MOST_BINS as f64 {
            self.width *= 2.0;
            let pairs = self.bins.chunks(2);
            let merge = |pair: &[(f64, u64)]| {
                pair.iter()
                    .fold((0.0, 0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1))
            };
            self.bins = pairs.map(merge).collect();
        }
        let place = (seconds / self.width) as usize;
        if self.bins.len() <= place {
            self.bins.resize(place + 1, (0.0, 0));
        }
        self.bins[place].0 += value;
        self.bins[place].1 += 1;
        let summary = &mut self.summary;
        summary.samples += 1;
        summary.low = summary.low.min(value);
        summary.high = summary.high.max(value);
        summary.mean += (value - summary.mean) / summary.samples as f64;
    }

    fn line(&self, label: String) -> PlotLine {
        let mut points = Vec::new();
        for (place, (sum, count)) in self.bins.iter().enumerate() {
            if *count > 0 {
                points.push(PlotPoint {
                    x: (place as f64 + 0.5) * self.width,
                    y: sum / *count as f64,
                    interval: None,
                });
            }
        }
        PlotLine { label, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_has_no_more_points_and_the_same_mean() {
        let mut curve = Curve::new();
        for at in 0..100_000 {
            curve.add(f64::from(at), f64::from(at % 2));
        }
        let line = curve.line(String::new());
        assert!(line.points.len() <= MOST_BINS && line.points.len() > MOST_BINS / 4);
        assert!(line.points.iter().all(|point| (point.y - 0.5).abs() < 0.01));
        assert!((curve.summary.mean - 0.5).abs() < 1e-9);
        assert_eq!(curve.summary.samples, 100_000);
    }
}
