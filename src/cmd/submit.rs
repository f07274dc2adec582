//! `pxnbench submit`: a template as a Slurm job, for people who do not want to edit files.

use std::ffi::OsString;

use crate::{
    exit::{Code, Failure},
    experiment::{PresetNames, VariedSettings},
    launch::{
        submit::{GpusPerNode, Submission},
        template::{self, Template},
    },
    run::target::Target,
};

/// The level that is submitted if none is named.
const DEFAULT_LEVEL: &str = "aggressive";

/// Submits a sweep as a Slurm job.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// PXN level of the sweep, or of the training step: off conservative balanced aggressive
    /// default [default: aggressive for a sweep]
    #[arg(long, value_name = "LEVEL", value_parser = template::of_level)]
    level: Option<&'static Template>,

    /// Submit something other than a sweep at one level: compare for all levels in turn, suite for
    /// all collectives, training for the replay of a training step, or doctor for the checks of the
    /// nodes
    #[arg(long, value_name = "NAME", value_parser = template::by_name)]
    template: Option<&'static Template>,

    /// Nodes [default: the template's, 2]
    #[arg(
        short = 'N',
        long,
        value_name = "N",
        help_heading = "Options of sbatch"
    )]
    nodes: Option<String>,

    /// GPUs per node, with their type if the site wants it (h100:8); 0 measures host memory, on
    /// nodes with GPUs too [default: the template's, 8]
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

    /// Arguments of the sweep, or of pxnbench replay; options alone keep the template's collectives
    /// or workload. Long options of submit may stand anywhere before --, short ones only before the
    /// collectives; after them, -N and -p belong to the sweep
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns the job that is requested.
    ///
    /// # Errors
    ///
    /// Returns an error if a level is named beside a template that takes none.
    pub fn submission(self) -> anyhow::Result<Submission> {
        let options = self.options();
        let mut arguments = self.sweep;
        let template = match (self.template, self.level) {
            (None, Some(level)) => level,
            (None, None) => template::of_level(DEFAULT_LEVEL).map_err(usage)?,
            (Some(template), None) => template,
            (Some(template), Some(level)) if template.is_replay() => {
                arguments.extend(["--level".into(), level.name.into()]);
                template
            }
            (Some(template), Some(_)) => {
                let name = template.name;
                return Err(usage(format!(
                    "--template {name} takes no --level of submit. Leave one of them out"
                )));
            }
        };
        Ok(Submission {
            template,
            options,
            gpus_per_node: self.gpus_per_node,
            arguments,
            dry_run: self.dry_run,
            wait: self.wait,
        })
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

/// Submits the job, whose ranks are started for `target`.
///
/// # Errors
///
/// Returns an error if the template does not suit the target, or if sbatch does not take the job.
pub fn run(mut submission: Submission, target: &Target) -> anyhow::Result<Code> {
    if submission.template.is_experiment() {
        let levels = VariedSettings {
            levels: PresetNames::all_levels(),
            ..VariedSettings::default()
        };
        levels.check(target)?;
    }
    submission.suit(target)?;
    submission.submit()
}

fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
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
        let line = "x --level balanced -N 4 -p gpu -A proj --time 10 --sbatch=--qos=high alltoall \
                    -b 1K -N";
        let args = Line::parse_from(line.split(' ')).args;
        assert_eq!(args.level.map(|level| level.name), Some("balanced"));
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
        let submission = |line: &str| Line::parse_from(line.split(' ')).args.submission();
        let both = submission("x --level off --template suite").expect_err("both");
        assert_eq!(
            format!("{both:#}"),
            "--template suite takes no --level of submit. Leave one of them out"
        );
        let named = |line: &str| submission(line).expect("a job").template.name;
        assert_eq!(named("x --template suite"), "suite");
        assert_eq!(named("x all_reduce"), "aggressive");
        let training = submission("x --level off --template training moe-8x7b").expect("a job");
        assert_eq!(training.template.name, "training");
        assert_eq!(training.arguments, ["moe-8x7b", "--level", "off"]);
        let ranks = training.arguments_of_the_ranks();
        assert_eq!(ranks, ["replay", "moe-8x7b", "--level", "off"]);
        let options = submission("x --template training --seed 2").expect("a job");
        assert_eq!(
            options.arguments_of_the_ranks(),
            ["replay", "fsdp-7b", "--seed", "2"]
        );
    }
}
