//! [`Panel`]: the lines of one case by size, as they are drawn in one plot.

use super::{estimate::Estimate, line_proof::LineProof};

/// Lines that are drawn in one plot.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) case: PanelCase,
    pub(super) lines: Vec<Line>,
}

/// The case that the lines of a panel have in common, apart from the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PanelCase {
    pub(super) collective: &'static str,
    pub(super) dtype: String,
    pub(super) redop: String,
    pub(super) root: i64,
    pub(super) pattern: String,
    pub(super) is_in_place: bool,
}

/// The sizes of one variant under the same conditions.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What tells it from the other lines.
    pub(super) label: String,
    /// The level, or the name of its variant in an experiment.
    pub(super) variant: String,
    /// The values of [`CONDITIONS`](super::line_conditions::CONDITIONS).
    pub(super) conditions: Vec<String>,
    pub(super) points: Vec<Point>,
    pub(super) proof: LineProof,
}

/// One size of a line.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) size: u64,
    /// In µs.
    pub(super) time: Estimate,
    /// In GB/s; `None` if nothing crosses the bus.
    pub(super) busbw: Option<Estimate>,
    /// The most busbw that the links allow, in GB/s.
    pub(super) peak: Option<f64>,
    /// Wrong elements; `None` if no data were checked.
    pub(super) wrong: Option<u64>,
}

impl PanelCase {
    /// Returns the case in words: `all_reduce, float, sum, out of place`.
    pub(super) fn words(&self) -> String {
        let mut words = vec![self.collective.to_owned(), self.dtype.clone()];
        if self.redop != "none" {
            words.push(self.redop.clone());
        }
        if self.root >= 0 {
            words.push(format!("root {}", self.root));
        }
        if !self.pattern.is_empty() {
            words.push(self.pattern.clone());
        }
        words.push(self.placement().to_owned());
        words.join(", ")
    }

    /// Returns the placement of the buffers in words.
    pub(super) fn placement(&self) -> &'static str {
        if self.is_in_place {
            "in place"
        } else {
            "out of place"
        }
    }
}

/// Returns the sum of what is known of two numbers; `None` if neither is.
pub(super) fn sum_of_known(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first + second),
        (known, None) | (None, known) => known,
    }
}
