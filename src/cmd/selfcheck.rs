//! `pxnbench selfcheck` (hidden): do the GPU and the processor make and check the same data?
//! `scripts/gpu-check.sh` runs it.

use crate::{backend::nccl, exit::Code};

/// Compares the GPU's data and checks with the processor's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Index of the GPU.
    #[arg(long, default_value_t = 0)]
    gpu: usize,
}

/// Runs it on one GPU.
///
/// # Errors
/// Returns an error if CUDA fails.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let different = nccl::self_check(args.gpu, &mut |line| print_line!("{line}"))?;
    Ok(if different == 0 {
        Code::Fine
    } else {
        Code::WrongData
    })
}
