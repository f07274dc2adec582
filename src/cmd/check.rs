//! `pxnbench check RUN`: the results of a run, judged.

use std::{path::PathBuf, time::Duration};

use super::args::check::CheckArgs;
use crate::{
    check::{self, measured::Measured},
    exit::{Code, Failure},
    world::deadline,
};

/// How long a file system may hold up the check.
const LIMIT: Duration = Duration::from_secs(600);

/// Check the results of a run: is it fast enough, and not slower than before?
///
/// The same flags judge a sweep while it runs. Exit code 7 means that a case misses a requirement
/// or has wrong data, 5 that nothing could be judged, 6 that a requirement concerns no case.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: its folder, or its results.csv
    #[arg(value_name = "RUN", required_unless_present = "list_references")]
    run: Option<PathBuf>,

    #[command(flatten)]
    check: CheckArgs,

    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,

    /// Print the published values that --reference knows, with their sources
    #[arg(long)]
    list_references: bool,
}

/// Judges the run, and prints the verdict.
///
/// # Errors
///
/// Returns an error if the results cannot be read, or if nothing is required of them.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let Some(path) = args.run.as_ref().filter(|_| !args.list_references) else {
        for line in check::list_references() {
            print_line!("{line}")?;
        }
        return Ok(Code::Fine);
    };
    let requirements = args.check.requirements();
    let usage = |what: String| Failure::on_all_ranks(Code::Usage, what);
    if requirements.is_empty() {
        return Err(usage(
            "nothing is required of the run. Use --min-busbw, --min-pct-peak, --baseline or \
             --reference"
                .into(),
        ));
    }
    // A pipe or a file system may not answer.
    let _guard = deadline::limit("the files of the run", LIMIT);
    let measured = Measured::read(path)?;
    let verdict = requirements.prepare(&measured.setup())?.judge(&measured)?;
    if args.json {
        print_line!("{}", serde_json::to_string_pretty(&verdict)?)?;
    } else {
        for line in verdict.lines() {
            print_line!("{line}")?;
        }
    }
    Ok(verdict.code())
}
