//! [`Event`]: the progress of a sweep.

use super::plan::Series;
use crate::{collective::Case, record::Record};

/// One step of progress.
pub enum Event<'a> {
    /// The cases of one collective, type, operation and root begin, with their warm-up.
    Series(&'a Series),
    /// A case begins.
    Started(&'a Case),
    /// A case ended: measured, or waived.
    Finished(&'a Record),
    /// A case that was measured by the earlier run which this one resumes.
    Earlier(&'a Record),
}
