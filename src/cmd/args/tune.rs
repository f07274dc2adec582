//! The options of `replay --tune`.

use std::time::Duration;

use crate::experiment::PresetNames;

/// The options of a tuning.
#[derive(Clone, Debug, clap::Args)]
pub struct TuneArgs {
    /// Find the settings with which the step is fastest: replay all candidates block by block, and
    /// eliminate those that are shown to be slower
    #[arg(long, help_heading = "Tuning")]
    pub tune: bool,

    /// Time after which no further block begins; a step that is still running then is ended half a
    /// minute later, or after as long as the longest step took if that is more
    #[arg(
        long,
        value_name = "TIME",
        value_parser = humantime::parse_duration,
        default_value = "30m",
        requires = "tune",
        help_heading = "Tuning",
    )]
    pub budget: Duration,

    /// Levels to try; --resources and --bucket-mb take lists too [default: default,off,aggressive
    /// if NCCL runs]
    #[arg(
        long,
        value_name = "LEVELS",
        value_parser = PresetNames::levels,
        requires = "tune",
        help_heading = "Tuning",
    )]
    pub levels: Option<PresetNames>,

    /// Command that starts the ranks, such as "mpirun -np 4" [default: pxnbench launch, in a Slurm
    /// job]
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "tune",
        help_heading = "Tuning"
    )]
    pub start: Option<String>,

    /// Continue the tuning in the folder of --out, within another --budget; a restarted Slurm job
    /// does so by itself
    #[arg(long, requires = "tune", help_heading = "Tuning")]
    pub resume: bool,
}
