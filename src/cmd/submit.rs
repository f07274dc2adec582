//! `pxnbench submit`: a template as a Slurm job, for people who do not want to edit files.

use std::ffi::OsString;

use crate::{
    exit::Code,
    launch::submit::{self, Request, Template},
};

/// Submits a sweep as a Slurm job.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to submit: a PXN level (off conservative balanced aggressive), compare for all levels in one job, suite for all
    /// collectives, or doctor for the checks of the nodes
    #[arg(long, value_name = "LEVEL", default_value = "aggressive", value_parser = submit::template)]
    level: &'static Template,

    /// Nodes [default: the template's]
    #[arg(
        short = 'N',
        long,
        value_name = "N",
        help_heading = "Options of sbatch"
    )]
    nodes: Option<String>,

    /// GPUs per node; 0 runs on host memory [default: the template's]
    #[arg(long, value_name = "N", help_heading = "Options of sbatch")]
    gpus_per_node: Option<String>,

    /// Partition
    #[arg(
        short = 'p',
        long,
        value_name = "NAME",
        help_heading = "Options of sbatch"
    )]
    partition: Option<String>,

    /// Account
    #[arg(
        short = 'A',
        long,
        value_name = "NAME",
        help_heading = "Options of sbatch"
    )]
    account: Option<String>,

    /// Time limit, as sbatch takes it [default: the template's]
    #[arg(
        short = 't',
        long,
        value_name = "TIME",
        help_heading = "Options of sbatch"
    )]
    time: Option<String>,

    /// Any other option of sbatch, such as --sbatch=--qos=high; may be repeated
    #[arg(
        long,
        value_name = "OPTION",
        allow_hyphen_values = true,
        help_heading = "Options of sbatch"
    )]
    sbatch: Vec<String>,

    /// Print the sbatch line and the script, and submit nothing
    #[arg(long)]
    dry_run: bool,

    /// Follow the job to its end, and exit with its code
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,

    /// Arguments of the sweep; without any, the template's own
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns the options of `sbatch`, before the script.
    fn options(&self) -> Vec<String> {
        let named = [
            ("--nodes", &self.nodes),
            ("--gpus-per-node", &self.gpus_per_node),
            ("--partition", &self.partition),
            ("--account", &self.account),
            ("--time", &self.time),
        ];
        let mut options = Vec::new();
        for (name, value) in named {
            if let Some(value) = value {
                options.push(format!("{name}={value}"));
            }
        }
        options.extend(self.sbatch.iter().cloned());
        options
    }
}

/// Submits, and follows the job if asked to.
///
/// # Errors
///
/// Returns an error if there is no Slurm, or if it refuses the job.
pub fn run(args: Args) -> anyhow::Result<Code> {
    submit::run(&Request {
        template: args.level,
        options: args.options(),
        arguments: args.sweep,
        dry_run: args.dry_run,
        wait: args.wait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_is_asked_for_becomes_options_of_sbatch() {
        let line = "x --level balanced -N 4 -p gpu -A proj --time 10 --sbatch=--qos=high alltoall -b 1K -N";
        let args = Line::parse_from(line.split(' ')).args;
        assert_eq!(args.level.name, "balanced");
        let options = [
            "--nodes=4",
            "--partition=gpu",
            "--account=proj",
            "--time=10",
            "--qos=high",
        ];
        assert_eq!(args.options(), options);
        assert_eq!(
            args.sweep,
            ["alltoall", "-b", "1K", "-N"],
            "what comes after the collective is the sweep's"
        );
        assert!(Line::try_parse_from(["x", "--level", "extreme"]).is_err());
    }
}
