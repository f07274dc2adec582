//! [`LinePlot`]: what is drawn of lines, and what of it can be.

use std::ops::Range;

use super::palette::LINES;

/// Lines of one plot: more cannot be told apart.
pub(super) const MOST_LINES: usize = LINES.len();

/// Points of a line that are drawn.
pub(super) const MOST_POINTS: usize = 100;

/// The least value on a logarithmic axis, and the most on any. A file can have values without
/// bound, for whose axis the library would look for labels without end.
const LEAST_DRAWN: f64 = 1e-9;
const MOST_DRAWN: f64 = 1e18;

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) struct LinePlot {
    pub(super) scale: Scale,
    /// Names of the axes, with their units.
    pub(super) x_name: &'static str,
    pub(super) y_name: String,
    /// At most [`MOST_LINES`].
    pub(super) lines: Vec<PlotLine>,
    /// A dashed line with its label, as a limit.
    pub(super) limit: Option<PlotLine>,
}

/// The mapping of values to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Sizes by powers of two against values by powers of ten.
    SizesAndLogarithm,
    /// Both as they are.
    Linear,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct PlotLine {
    pub(super) label: String,
    pub(super) points: Vec<PlotPoint>,
}

/// A point with its interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlotPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<(f64, f64)>,
}

impl LinePlot {
    /// Returns the plot without what cannot be drawn.
    pub(super) fn drawable(&self) -> LinePlot {
        let drawable = |line: &PlotLine| line.drawable(self.scale);
        LinePlot {
            lines: self.lines.iter().map(drawable).collect(),
            limit: self.limit.as_ref().map(drawable),
            y_name: self.y_name.clone(),
            ..*self
        }
    }

    /// Returns the ranges of all values and intervals.
    pub(super) fn extents(&self) -> (Range<f64>, Range<f64>) {
        let (mut x, mut y) = (ValueExtent::EMPTY, ValueExtent::EMPTY);
        for point in self
            .lines
            .iter()
            .chain(&self.limit)
            .flat_map(|line| &line.points)
        {
            x.add(point.x);
            y.add(point.y);
            // An interval of two repetitions can span decades: it is drawn as far as the plot goes.
            if let Some((low, high)) = point.interval {
                y.add(low.max(point.y / 3.0));
                y.add(high.min(point.y * 3.0));
            }
        }
        (x.range(), y.range())
    }
}

impl PlotLine {
    fn drawable(&self, scale: Scale) -> PlotLine {
        let points = self.points.iter();
        PlotLine {
            label: self.label.clone(),
            points: points.filter_map(|point| point.drawable(scale)).collect(),
        }
    }

    /// Returns where the points are.
    pub(super) fn places(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.points.iter().map(|point| (point.x, point.y))
    }

    /// Returns the line with at most [`MOST_POINTS`], evenly chosen; the first and the last are
    /// among them.
    pub(super) fn thinned(mut self) -> PlotLine {
        let count = self.points.len();
        if count > MOST_POINTS {
            let kept = (0..MOST_POINTS).map(|at| at * (count - 1) / (MOST_POINTS - 1));
            self.points = kept.map(|at| self.points[at]).collect();
        }
        self
    }
}

impl PlotPoint {
    /// Returns the point with the part of its interval that can be drawn; `None` if the point
    /// cannot.
    fn drawable(self, scale: Scale) -> Option<PlotPoint> {
        let least = match scale {
            Scale::SizesAndLogarithm => LEAST_DRAWN,
            Scale::Linear => -MOST_DRAWN,
        };
        let is_drawable = |value: f64| (least..=MOST_DRAWN).contains(&value);
        let within = |value: f64| value.clamp(least, MOST_DRAWN);
        (is_drawable(self.x) && is_drawable(self.y)).then(|| PlotPoint {
            interval: self
                .interval
                .filter(|(low, high)| !low.is_nan() && !high.is_nan())
                .map(|(low, high)| (within(low), within(high))),
            ..self
        })
    }
}

/// The least and the most of some values.
#[derive(Clone, Copy)]
struct ValueExtent {
    low: f64,
    high: f64,
}

impl ValueExtent {
    const EMPTY: ValueExtent = ValueExtent {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    fn add(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    fn range(self) -> Range<f64> {
        if self.low.is_finite() && self.high.is_finite() {
            self.low..self.high
        } else {
            1.0..10.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(count: usize) -> PlotLine {
        let points = (0..count).map(|at| PlotPoint {
            x: 2.0,
            y: 10.0 + at as f64,
            interval: None,
        });
        PlotLine {
            label: "off".into(),
            points: points.collect(),
        }
    }

    #[test]
    fn a_long_line_is_thinned_to_its_ends() {
        let thinned = line(100_000).thinned();
        assert_eq!(thinned.points.len(), MOST_POINTS);
        assert!((thinned.points[MOST_POINTS - 1].y - 100_009.0).abs() < 1e-9);
        assert_eq!(line(5).thinned().points.len(), 5);
    }
}
