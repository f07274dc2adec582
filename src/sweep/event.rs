//! Everything that can happen in a sweep.

use super::plan::Series;
use crate::{collective::Case, record::Record};

/// One thing that happened.
pub enum Event<'a> {
    /// The cases of one collective, type, operation and root begin, with their warm-up.
    Series(&'a Series),
    /// A case begins.
    Started(&'a Case),
    /// A case ended: measured, or waived.
    Finished(&'a Record),
    /// A case that an earlier run, which this one goes on with, had measured.
    Earlier(&'a Record),
}
