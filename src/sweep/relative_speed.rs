//! [`RelativeSpeed`]: how fast a rank is, compared with the others.

use crate::collective::Case;

/// The ratio of this rank's own times to the mean over all ranks. Only cases without a root count:
/// a root has more to do than other ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelativeSpeed {
    sum: f64,
    cases: u32,
}

impl RelativeSpeed {
    /// Adds a case that took this rank `mine`, and all of them `mean`.
    pub(super) fn add(&mut self, case: &Case, mine: f64, mean: f64) {
        if case.root.is_none() && mean > 0.0 {
            self.sum += mine / mean;
            self.cases += 1;
        }
    }

    /// Returns the mean ratio, 1 for a rank that takes as long as the mean; `None` if no case
    /// counts.
    pub fn mean(&self) -> Option<f64> {
        (self.cases > 0).then(|| self.sum / f64::from(self.cases))
    }
}
