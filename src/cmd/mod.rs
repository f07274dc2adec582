//! The command line: one small file per subcommand, with its arguments, one call and the exit code. No file imports a
//! sibling; what several share is in [`args`].

pub mod args;
pub mod compare;
pub mod doctor;
pub mod generate;
pub mod launch;
pub mod levels;
pub mod links;
pub mod probe;
pub mod proof;
pub mod run;
#[cfg(feature = "nccl")]
pub mod selfcheck;
pub mod submit;
pub mod topo;
#[cfg(feature = "nccl")]
pub mod worker;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};

use self::args::{sweep::SweepArgs, values};
use crate::{
    env,
    exit::{CODES, Code, Failure},
    fault,
    launch::Target,
};

/// Is NCCL on this cluster correct, fast, and really using PXN?
///
/// Runs a sweep of collectives on the ranks that mpirun or srun started, checks the data, and prints nccl-tests' table.
/// On a machine without a GPU it runs the same sweep over MPI on host memory.
#[derive(Debug, Parser)]
#[command(name = "pxnbench", version, args_conflicts_with_subcommands = true, after_help = after_help())]
// As with getopt: the last of several of one option counts, and a long name may be cut short. -V is nccl-tests' own.
#[command(
    disable_version_flag = true,
    infer_long_args = true,
    args_override_self = true
)]
pub struct Cli {
    /// What else there is to do.
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
    /// Start a sweep, or the doctor, on all nodes of this Slurm job
    Launch(launch::Args),
    /// Link this program under the names of nccl-tests' programs
    Links(links::Args),
    /// Submit a sweep as a Slurm job
    Submit(submit::Args),
    /// Join the steps of a comparison into one CSV, and print medians and ratios by level
    Compare(compare::Args),
    /// Check this node, or all nodes of a job: libraries, limits, GPUs, networks, Slurm, NCCL's settings
    Doctor(doctor::Args),
    /// Read NCCL's logs: was PXN used, by whom and through which NIC, and if not, why not
    Proof(proof::Args),
    /// Print the topology of this node, and the paths that NCCL will take
    Topo(topo::Args),
    /// Write the man pages or the shell completions, for packages.
    #[command(hide = true)]
    Generate(generate::Args),
    /// Say what a launch has to know of this process.
    #[command(hide = true)]
    Probe(probe::Args),
    /// Run each case once, for the rank that started this process.
    #[cfg(feature = "nccl")]
    #[command(hide = true)]
    Worker(worker::Args),
    /// Compare the GPU's data and checks with the processor's, for every type and operation.
    #[cfg(feature = "nccl")]
    #[command(hide = true)]
    Selfcheck(selfcheck::Args),
}

impl Cli {
    /// What has to be in the environment before any thread or library starts: name and value.
    pub fn environment(&self) -> Vec<(String, String)> {
        match &self.command {
            None => self.sweep.environment(&env::var),
            Some(Command::Proof(args)) => args.environment(&env::var),
            Some(_) => Vec::new(),
        }
    }

    /// Does it start ranks, or wait for them, rather than being one? Then signals are theirs.
    pub fn launches(&self) -> bool {
        matches!(self.command, Some(Command::Launch(_) | Command::Submit(_)))
    }

    /// Does it.
    ///
    /// # Errors
    /// An error that every rank has; one of a single rank does not come back.
    pub fn run(self) -> anyhow::Result<Code> {
        match self.command {
            None => run::run(&self.sweep),
            Some(Command::Levels(args)) => levels::run(&args),
            Some(Command::Launch(args)) => launch_ranks(args),
            Some(Command::Links(args)) => links::run(&args),
            Some(Command::Submit(args)) => submit::run(args),
            Some(Command::Compare(args)) => compare::run(&args),
            Some(Command::Doctor(args)) => doctor::run(&args),
            Some(Command::Proof(args)) => proof::run(&args),
            Some(Command::Topo(args)) => topo::run(&args),
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
    let target = launch_target(args.arguments())?;
    launch::run(args, target)
}

fn launch_target(arguments: &[OsString]) -> anyhow::Result<Target> {
    let mut words = vec![OsString::from("pxnbench")];
    words.extend_from_slice(arguments);
    let parsed = Cli::try_parse_from(words)
        .map_err(|error| Failure::on_all_ranks(Code::Usage, fault::clap_sentence(&error)))?;
    match parsed.command {
        None => Ok(Target::Sweep(Box::new(parsed.sweep.request()?))),
        Some(Command::Doctor(_)) => Ok(Target::Doctor),
        Some(_) => {
            let what =
                "launch starts only sweeps and the doctor: after --, name collectives or doctor";
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

/// The sentence for a first word that is neither a subcommand nor a collective: what follows it means nothing then.
pub fn unknown_first_word(words: &[OsString]) -> Option<String> {
    let first = words
        .get(1)?
        .to_str()
        .filter(|word| !word.starts_with('-'))?;
    let is_subcommand = Cli::command().find_subcommand(first).is_some();
    values::collectives(first).err().filter(|_| !is_subcommand)
}

fn after_help() -> String {
    let codes: Vec<String> = CODES
        .iter()
        .map(|(code, what)| format!("  {:2}  {what}", *code as u8))
        .collect();
    format!(
        "Examples:\n  mpirun -np 4 pxnbench all_reduce -b 8 -e 64M -f 2\n  srun --mpi=pmix pxnbench alltoall sendrecv -b 1K \
         -e 1G -f 2 --level balanced\n  pxnbench all --backend model --ranks 64 -b 1M -e 1G -f 4\n\nExit codes:\n{}",
        codes.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(line: &str) -> Result<Target, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        launch_target(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn every_visible_subcommand_can_be_suggested() {
        let cli = Cli::command();
        let visible = cli.get_subcommands().filter(|one| !one.is_hide_set());
        let names: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut suggested = values::SUBCOMMANDS.to_vec();
        suggested.sort_by_key(|name| names.iter().position(|other| other == name));
        assert_eq!(suggested, names);
    }

    #[test]
    fn sweeps_and_the_doctor_can_be_started_and_nothing_else() {
        assert!(of("alltoall -b 1K").expect("a sweep").is_sweep());
        let doctor = of("doctor --strict -v").expect("the doctor");
        assert!(
            !doctor.is_sweep()
                && doctor.folder(Path::new("x")).is_none()
                && doctor.backend().is_none()
        );
        assert!(of("topo").expect_err("no").contains("or doctor"));
        assert!(
            of("doctor --nonsense")
                .expect_err("no")
                .contains("--nonsense")
        );
        assert!(of("").expect_err("no").contains("no collective"));
    }
}
