//! `pxnbench experiment`: the same sweep or training step at several PXN levels, or with other
//! settings, in an order that is fair to all of them.
//!
//! Steps run in blocks. Each block runs every variant once, and the reference twice: how much its
//! two copies differ is noise. [`BlockOrder`](crate::stats::BlockOrder) gives the order. A warm-up
//! step before the first block pays for what only happens once, and its times are not used.
//! `experiment.json` records each step as it ends, so an experiment that is stopped is valid as far
//! as it went. A [`tune()`] is an experiment that runs a variant no more once another one is shown
//! to be faster.

mod budget;
mod check;
mod folder;
mod progress;
mod request;
mod start;
mod step;
mod steps;
mod tune;
mod variants;

use crate::{compare, exit::Code};

pub use request::{Continuation, Limits, Request};
pub use start::StepStart;
pub use step::last_message;
pub use tune::{TUNE_COLUMNS, TuneColumn, TuneGrid, run as tune};
pub use variants::{BucketSizes, PresetNames, Variants, VariedSettings};

/// Runs the experiment and prints the comparison.
///
/// # Errors
///
/// Returns an error if the folder cannot be used, or if nothing could be measured.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let mut experiment = steps::Experiment::open(request)?;
    experiment.warm_up()?;
    while experiment.has_another_block()? {
        experiment.run_block()?;
    }
    let compared = compare::run(&compare::Request::of_folder(&request.folder));
    let Some(failure) = experiment.failure() else {
        return compared;
    };
    // Too little was measured to compare because of that failure, which is what the exit code
    // tells.
    if let Err(error) = compared {
        say!("pxnbench: {error:#}");
    }
    Ok(failure)
}
