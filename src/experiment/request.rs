//! [`Request`]: what an experiment compares, how its steps run, and when it ends.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::variants::Variants;
use crate::compare::folders::MeasuredRun;

/// A requested experiment.
#[derive(Debug)]
pub struct Request {
    /// The variants that are compared.
    pub variants: Variants,
    /// Whether a step is a sweep or a replay.
    pub measured: MeasuredRun,
    /// The arguments of the sweep or of `replay`, without the options of the variants and without
    /// files.
    pub arguments: Vec<OsString>,
    /// The words before the arguments of a step: the command that starts the ranks, and the
    /// program.
    pub start: Vec<String>,
    /// The folder of the experiment.
    pub folder: PathBuf,
    /// When the experiment ends.
    pub limits: Limits,
    /// The seed of the order of the blocks; `None` to take it from the clock.
    pub seed: Option<u64>,
    /// What becomes of an experiment that `folder` already holds.
    pub continuation: Continuation,
    /// Whether only failures of steps are reported.
    pub quiet: bool,
}

/// What becomes of an experiment that is in the folder already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// It stays as it is, and nothing is measured.
    Refused,
    /// It is continued, and has to be there.
    Required,
    /// It is continued if it is there: a job that is started again may not have got that far.
    IfThere,
}

/// The limits of an experiment. The first that is reached ends it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of blocks; `None` for one balanced cycle.
    pub blocks: Option<u32>,
    /// The time. No block begins that would probably not end in time.
    pub time: Option<Duration>,
    /// The half width that all intervals must reach, relative to the ratio: 0.02 for ±2 %.
    pub precision: Option<f64>,
}
