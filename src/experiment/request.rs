//! What a caller asks of an experiment.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::variants::Variants;
use crate::compare::folders::MeasuredRun;

/// A requested experiment.
#[derive(Debug)]
pub struct Request {
    /// What is compared.
    pub variants: Variants,
    /// What a step measures.
    pub measured: MeasuredRun,
    /// The arguments of the sweep or of `replay`, without what the variants differ in and without files.
    pub arguments: Vec<OsString>,
    /// The command that starts the ranks, which the program and its arguments follow.
    pub start: Vec<String>,
    /// The folder of the experiment.
    pub folder: PathBuf,
    /// When to stop.
    pub limits: Limits,
    /// What the order of the blocks is derived from; from the clock if absent.
    pub seed: Option<u64>,
    /// Whether an experiment that `folder` already holds is continued.
    pub resume: bool,
    /// Whether the variants race, as candidates of a tuning.
    pub is_tuning: bool,
    /// Whether the steps are not announced.
    pub quiet: bool,
}

/// The limits of an experiment, of which the first that is reached ends it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks; one balanced cycle if absent.
    pub blocks: Option<u32>,
    /// Time. No block begins that would probably not end in time.
    pub time: Option<Duration>,
    /// The half width that all intervals must reach, relative to the ratio.
    pub precision: Option<f64>,
}
