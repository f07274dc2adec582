//! `pxnbench probe` (hidden): what a process that `pxnbench launch` starts on trial says of itself.

use std::path::PathBuf;

use crate::{exit::Code, launch::probe};

/// Reports the facts of this process that a launch needs before the run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not start MPI
    #[arg(long)]
    alone: bool,

    /// Use this libnccl, as a run's --nccl-lib does
    #[arg(long, value_name = "FILE")]
    nccl_lib: Option<PathBuf>,
}

/// Prints the report.
///
/// # Errors
///
/// Returns an error if MPI does not start.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    probe::run(args.alone, args.nccl_lib.as_deref())
}
