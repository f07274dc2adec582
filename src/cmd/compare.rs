//! `pxnbench compare DIR`: the steps of a comparison, judged.

use std::path::PathBuf;

use crate::{compare, exit::Code};

/// Compares the steps below a folder: which level is faster in which case, and how sure that is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder with one subfolder per step, which holds its results.csv
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Joins the steps, and prints the table.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, or if a file cannot be read or written.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    compare::run(&args.folder)
}
