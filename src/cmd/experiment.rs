//! `pxnbench experiment`: levels against each other, measured in blocks.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::args::values;
use crate::{
    env,
    exit::{Code, Failure},
    experiment::{self, Limits, Request, Variants},
    record,
    slurm::SlurmJob,
};

/// Runs the same sweep at several PXN levels, in an order that is fair to all of them, and compares the times.
///
/// Each block runs every level once and the first level twice. The two copies do the same, so their difference is noise; a
/// level is called better or worse only if it differs from both copies in all blocks together.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Levels to compare; the first is the reference
    #[arg(
        long,
        value_name = "LEVELS",
        default_value = "off,conservative,balanced,aggressive,default",
        value_parser = Variants::of_levels
    )]
    levels: Variants,

    /// Stop after this many blocks [default: as many as make the order balanced, 6 for five levels]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    blocks: Option<u32>,

    /// Start no block that would probably exceed this time, such as 90m; in a Slurm job, the job's time limit also
    /// applies
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    time: Option<Duration>,

    /// Stop when all intervals are within this percentage of their ratios
    #[arg(long, value_name = "PERCENT", value_parser = values::percentage)]
    precision: Option<f64>,

    /// Derive the order from this number [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Folder of the experiment [default: results/JOB-ID, or results/experiment-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Command that starts the ranks, such as "mpirun -np 4" [default: pxnbench launch, in a Slurm job]
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,

    /// Continue the experiment in the folder; a restarted Slurm job does so by itself
    #[arg(long)]
    resume: bool,

    /// Report only failures while the steps run
    #[arg(long)]
    quiet: bool,

    /// Sweep to run if only options are given
    #[arg(long, value_name = "SWEEP", hide = true)]
    default_sweep: Option<String>,

    /// Arguments of the sweep, without a level and without files
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SWEEP"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns the arguments of the sweep.
    pub fn sweep(&self) -> &[OsString] {
        &self.sweep
    }

    /// Returns the sweep to run if only options are given.
    pub fn default_sweep(&self) -> Option<&str> {
        self.default_sweep.as_deref()
    }
}

/// Runs the experiment with these arguments of the sweep.
///
/// # Errors
///
/// Returns an error if ranks cannot be started, or if nothing could be measured.
pub fn run(args: Args, sweep: Vec<OsString>) -> anyhow::Result<Code> {
    let job = SlurmJob::from(&env::var).map_err(|why| Failure::on_all_ranks(Code::Launch, why))?;
    let start = start_command(args.start.as_deref(), job.is_some())?;
    let folder = args.out.unwrap_or_else(|| default_folder(job.as_ref()));
    let is_restarted = job.is_some_and(|job| job.restarts > 0);
    experiment::run(&Request {
        variants: args.levels,
        sweep,
        start,
        folder,
        limits: Limits {
            blocks: args.blocks,
            time: args.time,
            precision: args.precision.map(|percent| percent / 100.0),
        },
        seed: args.seed,
        resume: args.resume || is_restarted,
        quiet: args.quiet,
    })
}

/// Returns the words before the arguments of the sweep.
fn start_command(start: Option<&str>, in_job: bool) -> anyhow::Result<Vec<String>> {
    let program = std::env::current_exe()?.display().to_string();
    let usage = |what: &str| Failure::on_all_ranks(Code::Usage, what);
    match start {
        Some(command) => {
            let mut words = shlex::split(command).unwrap_or_default();
            if words.is_empty() {
                return Err(usage(
                    "--start is no command. Name one, such as \"mpirun -np 4\"",
                ));
            }
            words.push(program);
            Ok(words)
        }
        None if in_job => Ok(vec![program, "launch".into(), "--".into()]),
        None => Err(usage(
            "this is not a Slurm job, so it is not known how to start ranks. Name a command, such as --start \"mpirun -np 4\"",
        )),
    }
}

fn default_folder(job: Option<&SlurmJob>) -> PathBuf {
    let name = match job {
        Some(job) => job.folder(),
        None => format!("experiment-{}", record::now().format("%Y%m%dT%H%M%S")),
    };
    PathBuf::from("results").join(name)
}
