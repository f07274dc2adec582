//! `pxnbench submit`: a template as a job, for people who do not want to edit files.
//!
//! The templates of `slurm/` are compiled in; what is submitted is one of them with the options of `sbatch` that were
//! asked for. The program in the job is this one.

mod follow;

use std::{ffi::OsString, io::Write, path::Path, process::Command};

use tempfile::NamedTempFile;

use crate::exit::{Code, Failure};

/// What can be submitted, and the template it is.
const TEMPLATES: [(&str, &str); 7] = [
    ("off", include_str!("../../../slurm/pxn_off.sbatch")),
    (
        "conservative",
        include_str!("../../../slurm/pxn_conservative.sbatch"),
    ),
    (
        "balanced",
        include_str!("../../../slurm/pxn_balanced.sbatch"),
    ),
    (
        "aggressive",
        include_str!("../../../slurm/pxn_aggressive.sbatch"),
    ),
    (
        "compare",
        include_str!("../../../slurm/compare_levels.sbatch"),
    ),
    ("suite", include_str!("../../../slurm/suite.sbatch")),
    ("doctor", include_str!("../../../slurm/doctor.sbatch")),
];

/// Submits a sweep as a Slurm job.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to submit: a PXN level (off conservative balanced aggressive), compare for all levels in one job, suite for all
    /// collectives, or doctor for the checks of the nodes
    #[arg(long, value_name = "LEVEL", default_value = "aggressive", value_parser = template)]
    level: &'static (&'static str, &'static str),

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

fn template(name: &str) -> Result<&'static (&'static str, &'static str), String> {
    TEMPLATES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| {
            let names: Vec<_> = TEMPLATES.iter().map(|(name, _)| *name).collect();
            format!("there are {}", names.join(", "))
        })
}

impl Args {
    /// The options of `sbatch`, before the script.
    fn options(&self) -> Vec<String> {
        let named = [
            ("--nodes", &self.nodes),
            ("--gpus-per-node", &self.gpus_per_node),
            ("--partition", &self.partition),
            ("--account", &self.account),
            ("--time", &self.time),
        ];
        let named = named
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        named.chain(self.sbatch.iter().cloned()).collect()
    }
}

/// Submits, and follows the job if asked to.
///
/// # Errors
/// Where there is no Slurm, or it refuses.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let (name, script) = args.level;
    let sweep: Vec<String> = args
        .sweep
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if args.dry_run {
        print_line!(
            "# sbatch {} pxn_{name}.sbatch {}",
            args.options().join(" "),
            sweep.join(" ")
        )?;
        print_line!("{script}")?;
        return Ok(Code::Fine);
    }
    let file = write(name, script)?;
    let submitted = sbatch(&args.options(), file.path(), &sweep);
    // sbatch has taken a copy: the file goes when it is dropped.
    drop(file);
    let job = submitted?;
    if args.wait {
        return follow::to_the_end(&job);
    }
    say!(
        "pxnbench: submitted as job {job}; `squeue -j {job}` shows it, its output goes to a file named after it"
    );
    print_line!("{job}")?;
    Ok(Code::Fine)
}

/// The script as a file of our own, since a script on sbatch's standard input takes no arguments.
fn write(name: &str, script: &str) -> anyhow::Result<NamedTempFile> {
    let made = tempfile::Builder::new()
        .prefix(&format!("pxn_{name}."))
        .suffix(".sbatch")
        .tempfile();
    let written = made.and_then(|mut file| file.write_all(script.as_bytes()).map(|()| file));
    written.map_err(|error| {
        let folder = std::env::temp_dir();
        Failure::on_all_ranks(
            Code::Usage,
            format!(
                "{} cannot be written to: {error}; set TMPDIR",
                folder.display()
            ),
        )
    })
}

/// Submits and gives the job's number.
fn sbatch(options: &[String], file: &Path, sweep: &[String]) -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("sbatch");
    command
        .arg("--parsable")
        .args(options)
        .arg(file)
        .args(sweep)
        .env("PXNBENCH", &program);
    if let Some(home) = home(&program) {
        command.env("PXNBENCH_HOME", home);
    }
    // A job that is submitted from inside a job inherits what describes the outer one, and fails by it.
    std::env::vars()
        .filter(|(name, _)| name.starts_with("SLURM_") && name != "SLURM_CONF")
        .for_each(|(name, _)| {
            command.env_remove(name);
        });
    let output = command.output().map_err(|error| {
        let what = format!(
            "sbatch cannot be started ({error}): submit on a machine with Slurm, or use mpirun"
        );
        Failure::on_all_ranks(Code::Launch, what)
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let what = format!(
            "Slurm refuses the job: {}",
            text(&output.stderr).replace('\n', "; ")
        );
        return Err(Failure::on_all_ranks(Code::Launch, what));
    }
    // With several clusters it is `number;cluster`.
    Ok(text(&output.stdout)
        .split(';')
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// The folder of pxnbench, where the program lies in its `target/release` and the templates beside that.
fn home(program: &Path) -> Option<&Path> {
    program
        .ancestors()
        .nth(3)
        .filter(|home| home.join("slurm/site.conf.example").is_file())
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
        assert_eq!(args.level.0, "balanced");
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
