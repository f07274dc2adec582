//! [`Spin`]: computation that takes a known time on an idle processor.

use std::{hint::black_box, time::Instant};

use crate::units::Micros;

/// Iterations of the first run that is timed.
const FIRST: u64 = 1 << 12;

/// The least time of a run that is timed.
const LEAST: Micros = Micros(500.0);

/// Runs that are timed. The fastest counts: whatever disturbs a run makes it slower.
const RUNS: u32 = 20;

/// A loop of dependent operations, whose iterations are counted: what disturbs it makes it take
/// longer.
pub(super) struct Spin {
    per_micro: f64,
}

impl Spin {
    /// Measures how many iterations the processor makes in a microsecond.
    pub(super) fn calibrated() -> Spin {
        let mut iterations = FIRST;
        while time_of(iterations).0 < LEAST.0 {
            iterations *= 2;
        }
        let mut fastest = f64::INFINITY;
        for _ in 0..RUNS {
            fastest = fastest.min(time_of(iterations).0);
        }
        Spin {
            per_micro: iterations as f64 / fastest,
        }
    }

    /// Returns the iterations that take `time` if nothing disturbs them.
    pub(super) fn iterations(&self, time: Micros) -> u64 {
        (self.per_micro * time.0.max(0.0)).round() as u64
    }
}

fn time_of(iterations: u64) -> Micros {
    let begin = Instant::now();
    spin(iterations);
    begin.elapsed().into()
}

/// Makes `iterations` iterations, each of which needs the result of the one before.
pub(super) fn spin(iterations: u64) {
    let mut value = black_box(1.0_f64);
    for _ in 0..iterations {
        value = value * 0.999_999 + 1e-6;
    }
    black_box(value);
}
