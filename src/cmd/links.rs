//! `pxnbench links DIR`: links by nccl-tests' names.

use std::path::PathBuf;

use crate::{drop_in, exit::Code};

/// Link this program under the names of nccl-tests' programs
///
/// Called as all_reduce_perf and so on, it runs that collective with nccl-tests' command line, and
/// writes no files except those that are requested. The name may have a suffix:
/// all_reduce_perf_mpi.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the links; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Makes the links, and prints them.
///
/// # Errors
///
/// Returns an error if a link cannot be made.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    for link in drop_in::link_all(&args.folder)? {
        print_line!("{}", link.display())?;
    }
    Ok(Code::Fine)
}
