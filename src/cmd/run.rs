//! `pxnbench COLLECTIVE…`: the sweep.

use super::args::sweep::SweepArgs;
use crate::{exit::Code, run};

/// Runs the sweep.
///
/// # Errors
///
/// Returns an error if the arguments contradict each other, or if the run fails on all ranks.
pub fn run(args: &SweepArgs) -> anyhow::Result<Code> {
    run::run(&args.request()?)
}
