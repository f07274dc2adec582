//! [`Cli`]: the command line, with all subcommands.

use std::ffi::OsString;

use clap::{Args as _, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::{
    args::{own_options, sweep::SweepArgs},
    check, compare, doctor, experiment, generate, join, kube, launch, levels, links, monitor, plan,
    probe, proof, rehearse, replay, report, submit, topo,
};
#[cfg(feature = "nccl")]
use super::{selfcheck, worker};
use crate::{
    drop_in, env,
    exit::{CODES, Code},
};

/// Is NCCL on this cluster correct, fast, and really using PXN?
///
/// Runs a sweep of collectives on the ranks that mpirun or srun started, checks the data, and
/// prints nccl-tests' table. On a machine without a GPU it runs the same sweep over MPI on host
/// memory.
#[derive(Debug, Parser)]
#[command(
    name = "pxnbench",
    version,
    args_conflicts_with_subcommands = true,
    after_help = after_help(),
)]
// As with getopt: the last of several of one option counts, and a long name may be cut short. -V is
// nccl-tests' own.
#[command(
    disable_version_flag = true,
    infer_long_args = true,
    args_override_self = true
)]
pub struct Cli {
    /// The subcommand; `None` runs a sweep.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// The sweep.
    #[command(flatten)]
    pub sweep: SweepArgs,
}

/// A subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the PXN levels, resources and networks: what each sets, and why.
    Levels(levels::Args),
    /// Start a sweep, or the doctor, on the nodes of this Slurm job or on named hosts
    Launch(launch::Args),
    /// Start the ranks of this node by hand: without MPI, ssh or Slurm
    Join(join::Args),
    /// Link this program under the names of nccl-tests' programs
    Links(links::Args),
    /// Submit a sweep, or the replay of a training step, as a Slurm job
    Submit(submit::Args),
    /// Run a sweep, or the replay of a training step, on a Kubernetes cluster
    Kube(kube::Args),
    /// Replay the communication of a training step, overlapped with computation
    Replay(Box<replay::Args>),
    /// Plan: what other sizes, other numbers of ranks and training steps would take, from runs that
    /// were measured
    Plan(plan::Args),
    /// Compare runs, or the steps below a folder: which is faster in which case, and how sure that
    /// is
    Compare(compare::Args),
    /// Check the results of a run: is it fast enough, and not slower than before?
    Check(check::Args),
    /// Run a sweep or a training step at several PXN levels, in an order that is fair to all, and
    /// compare the times
    Experiment(experiment::Args),
    /// Check this node, or all nodes of a job: libraries, limits, GPUs, networks, Slurm, NCCL's
    /// settings
    Doctor(doctor::Args),
    /// Read NCCL's logs: was PXN used, by whom and through which NIC, and if not, why not
    Proof(proof::Args),
    /// Print the topology of this node, and the paths that NCCL will take
    Topo(topo::Args),
    /// Show what NCCL does with PXN on several nodes with several NICs each: who relays, and which
    /// rails carry what
    Rehearse(rehearse::Args),
    /// Show clocks, power, temperature and traffic of the GPUs of this node, live
    Monitor(monitor::Args),
    /// Show the results of runs: one HTML file with plots and tables, which needs no network
    Report(report::Args),
    /// Write the man pages or the shell completions, for packages.
    #[command(hide = true)]
    Generate(generate::Args),
    /// Report the facts of this process that a launch needs.
    #[command(hide = true)]
    Probe(probe::Args),
    /// Run each case once, for the rank that started this process.
    #[cfg(feature = "nccl")]
    #[command(hide = true)]
    Worker(Box<worker::Args>),
    /// Compare the GPU's data and checks with the processor's, for every type and operation.
    #[cfg(feature = "nccl")]
    #[command(hide = true)]
    Selfcheck(selfcheck::Args),
}

impl Cli {
    /// Parses a command line; the first of `words` is the name of the program. Under a name of
    /// nccl-tests, the help is that of the program of that name.
    ///
    /// # Errors
    /// Returns an error if help or the version is requested, or if the words cannot be parsed.
    pub fn parse_words(words: &[OsString]) -> Result<Cli, clap::Error> {
        let name = words.first().and_then(|word| drop_in::program_name(word));
        let command = match name {
            Some(name) => under_another_name(name),
            None => Cli::command(),
        };
        Cli::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    /// Returns the variables that must be set before any thread or library starts: names and
    /// values.
    pub fn environment(&self) -> Vec<(String, String)> {
        match &self.command {
            None => self.sweep.environment(&env::var),
            Some(Command::Proof(args)) => args.environment(&env::var),
            Some(Command::Replay(args)) => args.environment(&env::var),
            Some(_) => Vec::new(),
        }
    }

    /// Returns whether this process is to measure, as a rank or alone.
    pub fn measures(&self) -> bool {
        match &self.command {
            None => true,
            Some(Command::Replay(args)) => !args.tunes(),
            Some(_) => false,
        }
    }

    /// Returns whether this process starts ranks, or waits for them, instead of being one. Signals
    /// are then for the ranks.
    pub fn launches(&self) -> bool {
        match &self.command {
            Some(
                Command::Launch(_)
                | Command::Join(_)
                | Command::Submit(_)
                | Command::Kube(_)
                | Command::Experiment(_),
            ) => true,
            Some(Command::Replay(args)) => args.tunes(),
            Some(Command::Rehearse(args)) => args.runs_nccl(),
            _ => false,
        }
    }
}

/// Returns the command line under a name of nccl-tests: flags only, since the name says what runs.
fn under_another_name(name: &str) -> clap::Command {
    let name = name.to_owned();
    // The last one is the doctor's.
    let sweep_codes = &CODES[..=Code::Stopped as usize];
    let about = format!(
        "Runs the sweep of nccl-tests' {name}, with its flags and its table. This is pxnbench \
         under another name: pxnbench --help lists what else it does."
    );
    Cli::command()
        .version(drop_in::version(env!("CARGO_PKG_VERSION")))
        .override_usage(format!("{name} [OPTIONS]"))
        .after_help(format!(
            "Examples:\n  mpirun -np 8 {name} -b 8 -e 4G -f 2 -g 1\n  {name} -b 8 -e 4G -f 2 -g \
             8\n\n{}",
            exit_codes(sweep_codes)
        ))
        .about(about.clone())
        .long_about(about)
        .mut_arg("collectives", |argument| argument.hide(true))
        .mut_subcommands(|subcommand| subcommand.hide(true))
        .disable_help_subcommand(true)
        .display_name(name.clone())
        .bin_name(name)
}

/// Moves the options of `launch`, `join`, `submit` and `experiment` that follow the collectives
/// before them.
pub fn own_options_first(words: Vec<OsString>) -> Vec<OsString> {
    let subcommand = words.get(1).and_then(|word| word.to_str());
    let command = clap::Command::new("");
    let command = match subcommand {
        Some("launch") => launch::Args::augment_args(command),
        Some("join") => join::Args::augment_args(command),
        Some("submit") => submit::Args::augment_args(command),
        Some("experiment") => experiment::Args::augment_args(command),
        _ => return words,
    };
    own_options::before_the_sweep(words, &command)
}

fn after_help() -> String {
    format!(
        "Examples:\n  mpirun -np 4 pxnbench all_reduce -b 8 -e 64M -f 2\n  srun --mpi=pmix \
         pxnbench alltoall sendrecv -b 1K -e 1G -f 2 --level balanced\n  pxnbench all --backend \
         model --ranks 64 -b 1M -e 1G -f 4\n\n{}",
        exit_codes(&CODES)
    )
}

fn exit_codes(codes: &[(Code, &str)]) -> String {
    let codes: Vec<String> = codes
        .iter()
        .map(|(code, what)| format!("  {:2}  {what}", *code as u8))
        .collect();
    format!("Exit codes:\n{}", codes.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::args::values;

    #[test]
    fn every_visible_subcommand_can_be_suggested() {
        let cli = Cli::command();
        let visible = cli.get_subcommands().filter(|one| !one.is_hide_set());
        let names: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut suggested = values::SUBCOMMANDS.to_vec();
        suggested.sort_by_key(|name| names.iter().position(|other| other == name));
        assert_eq!(suggested, names);
    }
}
