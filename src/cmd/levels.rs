//! `pxnbench levels`: the table of levels, resources and networks, two of its rows compared, and
//! the table checked against this machine.

use std::path::PathBuf;

use crate::{
    exit::Code,
    levels::{self, Preset, report},
    run::preset_check,
};

/// Prints PXN levels, resources and networks: what each sets, and why.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,

    /// Print only this level, or row of resources or networks
    #[arg(value_name = "LEVEL", value_parser = levels::find)]
    row: Option<&'static Preset>,

    /// Print lines for a shell: eval "$(pxnbench levels balanced --export)"
    #[arg(long, requires = "row", conflicts_with = "json")]
    export: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print what differs between two levels, or two rows of resources or networks
    Diff {
        /// The first of the two
        #[arg(value_name = "A", value_parser = levels::find)]
        a: &'static Preset,
        /// The second
        #[arg(value_name = "B", value_parser = levels::find)]
        b: &'static Preset,
    },
    /// Check whether the libnccl that would be loaded knows the variables, and look for harmful
    /// settings on this machine. Without a libnccl, names are checked against all known versions of
    /// NCCL
    Check {
        /// Check only this preset, as if it were requested [default: all variables, and the
        /// settings in force here]
        #[arg(value_name = "LEVEL", value_parser = levels::find)]
        row: Option<&'static Preset>,
        /// Use this libnccl instead of the one in NCCL_HOME or the system's
        #[arg(long, value_name = "FILE")]
        nccl_lib: Option<PathBuf>,
    },
}

/// Prints what is requested.
///
/// # Errors
/// Returns an error if `check` finds a libnccl that cannot be read.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let (text, code) = match (&args.action, args.row) {
        (Some(Action::Diff { a, b }), _) => (report::diff(a, b), Code::Fine),
        (Some(Action::Check { row, nccl_lib }), _) => {
            preset_check::check(*row, nccl_lib.as_deref())?
        }
        (None, Some(row)) if args.json => (report::json_row(row)?, Code::Fine),
        (None, None) if args.json => (report::json()?, Code::Fine),
        (None, Some(row)) if args.export => (report::export(row), Code::Fine),
        (None, Some(row)) => (report::row(row), Code::Fine),
        (None, None) => (report::all(), Code::Fine),
    };
    print_line!("{}", text.trim_end())?;
    Ok(code)
}
