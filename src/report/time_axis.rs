//! [`TimeAxis`]: the axis of a drawing whose lanes run along the time.

use super::{
    drawing::{Anchor, Drawing, tick},
    palette::GRID,
};

/// The width of a drawing, and the places of its lanes.
pub(super) const WIDTH: f64 = 760.0;
pub(super) const LEFT: f64 = 120.0;
pub(super) const TOP: f64 = 10.0;
const RIGHT: f64 = 20.0;

/// The shortest axis, in microseconds.
const LEAST_TIME: f64 = 1e-3;

/// The longest time on an axis, in microseconds: a file can have values without bound.
pub(super) const MOST_TIME: f64 = 1e12;

/// The axis of a time, from 0.
pub(super) struct TimeAxis {
    end: f64,
    /// Microseconds in the unit of the marks, and its name.
    unit: (f64, &'static str),
}

impl TimeAxis {
    /// Returns an axis to `end` microseconds.
    pub(super) fn new(end: f64) -> TimeAxis {
        let end = end.clamp(LEAST_TIME, MOST_TIME);
        TimeAxis {
            end,
            unit: if end < 1e3 { (1.0, "µs") } else { (1e3, "ms") },
        }
    }

    /// Returns the place of a time.
    pub(super) fn place(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (time / self.end).clamp(0.0, 1.0)
    }

    /// Draws the marks below the lanes that end at `bottom`.
    pub(super) fn draw(&self, drawing: &mut Drawing, bottom: f64) {
        let (unit, name) = self.unit;
        let distance = tick(self.end / unit);
        let marks = (self.end / unit / distance).floor() as u32;
        for mark in 0..=marks {
            let value = f64::from(mark) * distance;
            let x = self.place(value * unit);
            drawing.line((x, TOP), (x, bottom + 4.0), GRID);
            let decimals = (-distance.log10().floor()).max(0.0) as usize;
            let label = format!("{value:.decimals$}");
            drawing.words(&label, (x, bottom + 18.0), Anchor::Middle);
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        drawing.words(
            &format!("time ({name})"),
            (middle, bottom + 34.0),
            Anchor::Middle,
        );
    }

    /// Returns the unit of the marks: how many microseconds it has, and its name.
    pub(super) fn unit(&self) -> (f64, &'static str) {
        self.unit
    }
}
