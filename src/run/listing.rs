//! `--list`: what would run, one line per case.

use std::path::Path;

use super::{backend::BackendChoice, open, request::Request};
use crate::{
    backend::Waived, collective::Case, env, exit::Code, facts, sweep::plan::Plan, world::World,
};

/// Prints one line per case.
///
/// # Errors
///
/// Returns an error if stdout cannot be written.
pub(super) fn print(plan: &Plan, request: &Request, world: &dyn World) -> anyhow::Result<Code> {
    if world.rank() != 0 {
        return Ok(Code::Fine);
    }
    let on_host = runs_on_host(request.backend);
    for case in plan.cases() {
        match waived(case, on_host) {
            Some(Waived(why)) => print_line!("{}  waived: {why}", line(case))?,
            None => print_line!("{}", line(case))?,
        }
    }
    Ok(Code::Fine)
}

/// Returns whether a run on this machine would use host memory.
fn runs_on_host(choice: BackendChoice) -> bool {
    match choice {
        BackendChoice::Host => true,
        BackendChoice::Auto => facts::nvidia::evidence(Path::new("/"), &env::var).is_none(),
        BackendChoice::Nccl | BackendChoice::Model => false,
    }
}

/// Returns why `case` would not run, as far as that is known before a backend is opened.
fn waived(case: &Case, on_host: bool) -> Option<Waived> {
    if on_host {
        open::waived_on_host(case)
    } else {
        open::waived_by_model(case)
    }
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
