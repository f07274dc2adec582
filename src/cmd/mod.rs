//! The command line: one small file per subcommand, with its arguments, one call and the exit code.
//! No file imports a sibling; what several share is in [`args`], and `cli` has them all.

pub mod args;
pub mod check;
mod cli;
pub mod compare;
pub mod doctor;
pub mod experiment;
pub mod generate;
pub mod join;
pub mod kube;
pub mod launch;
pub mod levels;
pub mod links;
pub mod monitor;
pub mod plan;
pub mod probe;
pub mod proof;
mod ranks_arguments;
pub mod rehearse;
pub mod replay;
pub mod report;
pub mod run;
#[cfg(feature = "nccl")]
pub mod selfcheck;
pub mod submit;
pub mod topo;
mod usage_error;
#[cfg(feature = "nccl")]
pub mod worker;

use std::ffi::OsString;

use clap::CommandFactory;

use self::ranks_arguments::RanksArguments;
pub use self::{
    cli::{Cli, Command, own_options_first},
    usage_error::usage_sentence,
};
use crate::{exit::Code, run::target::Target};

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// Returns an error if every rank has it; an error of a single rank ends the job instead.
    pub fn run(self) -> anyhow::Result<Code> {
        match self.command {
            None => run::run(&self.sweep),
            Some(Command::Levels(args)) => levels::run(&args),
            Some(Command::Launch(args)) => launch_ranks(args),
            Some(Command::Join(args)) => join_ranks(args),
            Some(Command::Links(args)) => links::run(&args),
            Some(Command::Submit(args)) => submit_job(args),
            Some(Command::Kube(args)) => kube::run(args, read_for_kube),
            Some(Command::Replay(args)) => replay::run(&args),
            Some(Command::Plan(args)) => plan::run(&args),
            Some(Command::Compare(args)) => compare::run(&args),
            Some(Command::Check(args)) => check::run(&args),
            Some(Command::Experiment(args)) => run_experiment(args),
            Some(Command::Doctor(args)) => doctor::run(&args),
            Some(Command::Proof(args)) => proof::run(&args),
            Some(Command::Topo(args)) => topo::run(&args),
            Some(Command::Rehearse(args)) => rehearse::run(&args),
            Some(Command::Monitor(args)) => monitor::run(&args),
            Some(Command::Report(args)) => report::run(args),
            Some(Command::Generate(args)) => generate::run(&args, Cli::command()),
            Some(Command::Probe(args)) => probe::run(&args),
            #[cfg(feature = "nccl")]
            Some(Command::Worker(args)) => worker::run(&args),
            #[cfg(feature = "nccl")]
            Some(Command::Selfcheck(args)) => selfcheck::run(&args),
        }
    }
}

/// Starts ranks. What their arguments ask for is checked here, before anything is started.
fn launch_ranks(args: launch::Args) -> anyhow::Result<Code> {
    let ranks = RanksArguments {
        starter: "launch",
        default_sweep: args.default_sweep(),
    };
    let (arguments, target) = ranks.target(args.arguments())?;
    launch::run(args, target, arguments)
}

/// Starts the ranks of this node. What their arguments ask for is checked here, before anything is
/// started.
fn join_ranks(args: join::Args) -> anyhow::Result<Code> {
    let ranks = RanksArguments {
        starter: "join",
        default_sweep: None,
    };
    let (arguments, target) = ranks.target(&args.arguments())?;
    join::run(args, target, arguments)
}

/// Submits a job. What its ranks are to do is checked here, before anything is queued.
fn submit_job(args: submit::Args) -> anyhow::Result<Code> {
    let submission = args.submission()?;
    let ranks = RanksArguments {
        starter: "submit",
        default_sweep: submission.template.default_sweep(),
    };
    let (_, target) = ranks.target(&submission.arguments_of_the_ranks())?;
    submit::run(submission, &target)
}

/// Reads what the ranks of a deployment on Kubernetes are to do.
fn read_for_kube(
    typed: &[OsString],
    default_sweep: Option<&str>,
) -> anyhow::Result<(Vec<OsString>, Target)> {
    let ranks = RanksArguments {
        starter: "kube",
        default_sweep,
    };
    ranks.target(typed)
}

/// Runs an experiment. The arguments of its steps are checked here, before anything is started.
fn run_experiment(args: experiment::Args) -> anyhow::Result<Code> {
    let ranks = RanksArguments {
        starter: "experiment",
        default_sweep: args.default_sweep(),
    };
    let (arguments, target) = ranks.target(args.sweep())?;
    experiment::run(args, &target, arguments)
}
