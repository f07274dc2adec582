//! `pxnbench worker` (hidden): a process that runs each case once, for the rank that started it.

use super::args::sweep::SweepArgs;
use crate::{exit::Code, run::worker};

/// Runs each case once, for the rank that started this process.
#[derive(Debug, clap::Args)]
// The arguments of the sweep are a group of the name that this one would have.
#[group(id = "worker")]
pub struct Args {
    #[command(flatten)]
    sweep: SweepArgs,
}

/// Runs the worker.
///
/// # Errors
///
/// Returns an error if the rank that started it cannot be told how it ended.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    worker::run(args.sweep.request())
}
