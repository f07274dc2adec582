//! `--list`: what would run, one line a case.

use super::{args::Args, open};
use crate::{collective::Case, exit::Code, sweep::plan::Plan, world::World};

/// Prints one line a case.
///
/// # Errors
/// Where stdout cannot be written.
pub(super) fn print(plan: &Plan, args: &Args, world: &dyn World) -> anyhow::Result<Code> {
    if world.rank() == 0 {
        for case in plan.cases() {
            let waived = open::waived(args, case)
                .map_or_else(String::new, |why| format!("  waived: {}", why.0));
            print_line!("{}{waived}", line(case))?;
        }
    }
    Ok(Code::Fine)
}

fn line(case: &Case) -> String {
    format!(
        "{:14} {:>12} B {:>12} elements  {:8} {:5} root {:2}  {}",
        case.collective,
        case.size().0,
        case.counts.param,
        case.dtype.name(),
        case.redop_name(),
        case.root_number(),
        case.buffer_mode
    )
}
