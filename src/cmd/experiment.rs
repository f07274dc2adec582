//! `pxnbench experiment`: levels against each other, measured in blocks.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::args::values;
use crate::{
    compare::folders::MeasuredRun,
    exit::{Code, Failure},
    experiment::{
        self, BucketSizes, Limits, PresetNames, Request, StepStart, Variants, VariedSettings,
    },
    run::target::Target,
};

/// Runs the same sweep or training step at several PXN levels, in an order that is fair to all of
/// them, and compares the times.
///
/// Each block runs every level once and the first level twice. The two copies do the same, so their
/// difference is noise; a level is called better or worse only if it differs from both copies in
/// all blocks together. Networks, resources and bucket sizes are compared in the same way, and of
/// several lists all combinations.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Levels to compare; the first is the reference [default:
    /// off,conservative,balanced,aggressive,default, unless something else is compared]
    #[arg(long, value_name = "LEVELS", value_parser = PresetNames::levels)]
    levels: Option<PresetNames>,

    /// Networks to compare
    #[arg(long, value_name = "NETWORKS", value_parser = PresetNames::networks)]
    networks: Option<PresetNames>,

    /// Resources to compare
    #[arg(long, value_name = "RESOURCES", value_parser = PresetNames::resources)]
    resources: Option<PresetNames>,

    /// Sizes of buckets to compare, in MiB: of a training step with --bucket-mb
    #[arg(long, value_name = "LIST", value_parser = BucketSizes::parse)]
    bucket_mb: Option<BucketSizes>,

    /// Stop after this many blocks [default: as many as make the order balanced, 6 for five levels]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    blocks: Option<u32>,

    /// Start no block that would probably exceed this time, such as 90m; a step that is still
    /// running then is ended half a minute later, or after as long as the longest step took if that
    /// is more. In a Slurm job, the job's time limit also applies
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

    /// Command that starts the ranks, such as "mpirun -np 4" [default: pxnbench launch, in a Slurm
    /// job]
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

    /// Arguments of the sweep, or replay and its arguments, without a level and without files
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SWEEP"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns what the steps differ in: the levels, unless other settings are given several
    /// values.
    fn varied(&self) -> VariedSettings {
        let given = VariedSettings {
            levels: self.levels.clone().unwrap_or_default(),
            networks: self.networks.clone().unwrap_or_default(),
            resources: self.resources.clone().unwrap_or_default(),
            buckets: self.bucket_mb.clone().unwrap_or_default(),
        };
        if self.levels.is_some() || given.varies() {
            return given;
        }
        VariedSettings {
            levels: PresetNames::all_levels(),
            ..given
        }
    }

    /// Returns the arguments of the sweep.
    pub fn sweep(&self) -> &[OsString] {
        &self.sweep
    }

    /// Returns the sweep to run if only options are given.
    pub fn default_sweep(&self) -> Option<&str> {
        self.default_sweep.as_deref()
    }
}

/// Runs the experiment with `target`, which `arguments` stand for. Both are checked before anything
/// is started.
///
/// # Errors
///
/// Returns an error if the target is not what an experiment runs, if ranks cannot be started, or if
/// nothing could be measured.
pub fn run(args: Args, target: &Target, arguments: Vec<OsString>) -> anyhow::Result<Code> {
    let varied = args.varied();
    varied.check(target)?;
    let measured = match target {
        Target::Replay { .. } => MeasuredRun::Replay,
        _ => MeasuredRun::Sweep,
    };
    let variants = Variants::of(&varied);
    let variants = variants.map_err(|why| Failure::on_all_ranks(Code::Usage, why))?;
    let start = StepStart::of(args.start.as_deref(), args.out, "experiment", "")?;
    experiment::run(&Request {
        variants,
        measured,
        arguments,
        continuation: start.continuation(args.resume),
        start: start.command,
        folder: start.folder,
        limits: Limits {
            blocks: args.blocks,
            time: args.time,
            precision: args.precision.map(|percent| percent / 100.0),
        },
        seed: args.seed,
        quiet: args.quiet,
    })
}
