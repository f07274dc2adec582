//! `pxnbench levels`: the table of PXN levels.

use crate::{exit::Code, levels};

/// Prints the PXN levels and what each sets.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the table.
///
/// # Errors
/// None so far.
#[expect(clippy::print_stdout, reason = "the table is what this command is for")]
pub fn run(_: &Args) -> anyhow::Result<Code> {
    for level in levels::all() {
        println!("{:12}  {}", level.name, level.summary);
        for setting in &level.set {
            println!("{:12}    {}={}  {} (NCCL {})", "", setting.name, setting.value, setting.why, setting.since);
        }
    }
    Ok(Code::Fine)
}
