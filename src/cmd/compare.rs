//! `pxnbench compare RUN…`: runs against each other, judged.

use std::path::PathBuf;

use crate::{
    compare::{self, Dimension, Request},
    exit::Code,
};

/// Compares the steps below a folder, or several runs, of sweeps or of training steps: which is
/// faster in which case, and how sure that is.
///
/// Runs are compared by the one thing that differs between them, such as their PXN level. The steps
/// of an experiment, and those below one folder, are compared block by block; runs that are named
/// one by one have no blocks in common, so each needs repetitions (-N), or there must be several of
/// each kind.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One folder with one subfolder per step, or several runs: folders with a results.csv, or of
    /// replays
    #[arg(value_name = "DIR", required = true)]
    runs: Vec<PathBuf>,

    /// What differs between the runs: level, network, resources, bucket, settings (these four
    /// together), nccl, driver, mpi, pxnbench, nodes, hosts, run or date [default: whichever does]
    #[arg(long, value_name = "WHAT", value_parser = Dimension::named)]
    by: Option<Dimension>,

    /// Compare even if more than that differs; the table says what
    #[arg(long)]
    force: bool,

    /// Folder for comparison.csv, comparison.json and results.csv [default: the folder of the
    /// steps; none for several runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Compares the runs, and prints the table.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, or if a file cannot be read or written.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    compare::run(&Request {
        runs: args.runs.clone(),
        by: args.by,
        is_forced: args.force,
        out: args.out.clone(),
    })
}
