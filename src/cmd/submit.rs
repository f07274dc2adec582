//! `pxnbench submit`: a template as a Slurm job, for people who do not want to edit files.

use std::ffi::OsString;

use crate::launch::{
    submit::{GpusPerNode, Submission},
    template::{self, Template},
};

/// Submits a sweep as a Slurm job.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// PXN level of the sweep: off conservative balanced aggressive default
    #[arg(long, value_name = "LEVEL", default_value = "aggressive", value_parser = template::of_level)]
    level: &'static Template,

    /// Submit something other than a sweep at one level: compare for all levels in turn, suite for all collectives, or
    /// doctor for the checks of the nodes
    #[arg(long, value_name = "NAME", conflicts_with = "level", value_parser = template::by_name)]
    template: Option<&'static Template>,

    /// Nodes [default: the template's, 2]
    #[arg(
        short = 'N',
        long,
        value_name = "N",
        help_heading = "Options of sbatch"
    )]
    nodes: Option<String>,

    /// GPUs per node, with their type if the site wants it (h100:8); 0 measures host memory, on nodes with GPUs too
    /// [default: the template's, 8]
    #[arg(long, value_name = "N", help_heading = "Options of sbatch")]
    gpus_per_node: Option<GpusPerNode>,

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

    /// Time limit, in the format of sbatch [default: the template's]
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

    /// Arguments of the sweep; options alone keep the template's collectives. Long options of submit may stand anywhere before --, short ones only
    /// before the collectives; after them, -N and -p belong to the sweep
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns the job that is requested.
    pub fn submission(self) -> Submission {
        Submission {
            template: self.template.unwrap_or(self.level),
            options: self.options(),
            gpus_per_node: self.gpus_per_node,
            arguments: self.sweep,
            dry_run: self.dry_run,
            wait: self.wait,
        }
    }

    /// Returns the options of `sbatch`, before the script, without the GPUs.
    fn options(&self) -> Vec<String> {
        let named = [
            ("--nodes", &self.nodes),
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
        for wrong in [
            "--level extreme",
            "--level doctor",
            "--template off",
            "--gpus-per-node x",
        ] {
            let words = ["x"].into_iter().chain(wrong.split(' '));
            assert!(Line::try_parse_from(words).is_err(), "{wrong}");
        }
        let both = ["x", "--level", "off", "--template", "suite"];
        assert!(Line::try_parse_from(both).is_err());
        let suite = Line::parse_from(["x", "--template", "suite"]).args;
        assert_eq!(suite.submission().template.name, "suite");
    }
}
