//! `pxnbench launch`: starts a sweep, or the doctor, on all nodes of the Slurm job around it.
//!
//! What differs between sites is found out and not configured: one task a node says what it runs on, and each way to
//! start ranks is tried on two before it is trusted with all, since `srun --mpi=list` also lists what cannot work.

mod check;
mod choose;
mod memory;
mod outcome;
mod process;
mod requeue;
mod site;
mod target;

use std::{
    ffi::OsString,
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use memory::LaunchMemo;
use target::LaunchTarget;

use crate::{
    cmd::values,
    env::{self, Env},
    exit::{Code, Failure},
    levels,
    slurm::{
        SlurmJob, hosts,
        step::{Container, Launcher, SlurmStep, StepShape},
    },
};

/// Starts a sweep, or the doctor, on all nodes of this Slurm job, one rank a GPU.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What starts the ranks: srun, mpirun, or auto (srun, or mpirun if no --mpi type works)
    #[arg(
        long,
        value_name = "LAUNCHER",
        default_value = "auto",
        env = "PXNBENCH_LAUNCHER"
    )]
    by: choose::LauncherChoice,

    /// srun's --mpi type [default: the first with which two ranks see each other]
    #[arg(long, value_name = "TYPE", env = "PXNBENCH_MPI")]
    mpi: Option<String>,

    /// Processes per node [default: its GPUs divided by -t and -g of the sweep; without GPUs as the job asked for,
    /// else 2]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, env = "PXNBENCH_TASKS_PER_NODE")]
    tasks_per_node: Option<u32>,

    /// Run in this container image, by pyxis
    #[arg(long, value_name = "IMAGE")]
    container: Option<String>,

    /// Additional mounts, as pyxis' --container-mounts takes them
    #[arg(long, value_name = "MOUNTS", requires = "container")]
    container_mounts: Option<String>,

    /// Path of the program in the container, if it is another one
    #[arg(long, value_name = "FILE", requires = "container")]
    container_program: Option<PathBuf>,

    /// Print the command that would start the ranks, and start nothing
    #[arg(long)]
    dry_run: bool,

    /// Arguments of the sweep, as without launch; or doctor, with its own
    #[arg(last = true, value_name = "ARGUMENTS")]
    sweep: Vec<OsString>,
}

/// Starts the ranks and waits for them.
///
/// # Errors
/// Where there is no job, a node is not ready, or no way to start ranks works: each a sentence that says what to edit.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let what = LaunchTarget::of(&args.sweep)?;
    let job = SlurmJob::from(&env::var)
        .map_err(|why| Failure::on_all_ranks(Code::Launch, why))?
        .ok_or_else(outside)?;
    refuse_many(&env::var)?;
    let launch = Launch {
        args,
        what: &what,
        job: &job,
        container: container(args, &env::var)?,
    };
    if args.dry_run {
        return launch.dry_run();
    }
    let (launcher, shape) = launch.prepare()?;
    launch.say(&launcher, shape);
    outcome::run(&launch, &launcher, shape)
}

fn outside() -> anyhow::Error {
    let what = "this is not a Slurm job (SLURM_JOB_ID is not set): use sbatch slurm/pxn_aggressive.sbatch, or run launch \
                inside salloc; without Slurm it is mpirun -np N pxnbench …";
    Failure::on_all_ranks(Code::Launch, what)
}

/// `srun -n 8 pxnbench launch` would start eight sweeps.
fn refuse_many(env: Env) -> anyhow::Result<()> {
    let tasks = ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"]
        .iter()
        .find_map(|name| env(name)?.parse::<u32>().ok());
    match tasks {
        Some(tasks) if tasks > 1 => {
            let what = format!(
                "launch was itself started {tasks} times: call it once, without srun; it starts the ranks"
            );
            Err(Failure::on_all_ranks(Code::Launch, what))
        }
        _ => Ok(()),
    }
}

/// The container of the ranks. The job's variables are named one by one, since else those of the image win over the level.
fn container(args: &Args, env: Env) -> anyhow::Result<Option<Container>> {
    let Some(image) = args.container.clone() else {
        return Ok(None);
    };
    let here = std::env::current_dir()?.display().to_string();
    let program = std::env::current_exe()?;
    let folder = program
        .parent()
        .map(|folder| folder.display().to_string())
        .unwrap_or_default();
    let mut mounts = vec![format!("{here}:{here}")];
    if args.container_program.is_none() && folder != here {
        mounts.push(format!("{folder}:{folder}"));
    }
    mounts.extend(args.container_mounts.clone());
    Ok(Some(Container {
        image,
        mounts,
        workdir: here,
        env: nccl_names(env),
    }))
}

/// Names of NCCL's variables: those that are set, and those that a level may set.
fn nccl_names(env: Env) -> Vec<String> {
    let set = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|n| n.starts_with("NCCL_"));
    let of_levels = levels::all()
        .iter()
        .flat_map(|level| &level.set)
        .map(|setting| setting.name.clone());
    let mut names: Vec<String> = set
        .chain(of_levels.filter(|name| env(name).is_some()))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A launch: what was asked for, in which job.
struct Launch<'a> {
    args: &'a Args,
    what: &'a LaunchTarget,
    job: &'a SlurmJob,
    container: Option<Container>,
}

impl Launch<'_> {
    /// Looks at the nodes, and finds what starts ranks.
    fn prepare(&self) -> anyhow::Result<(Launcher, StepShape)> {
        let found = match memory::recall(self)? {
            Some(found) => found,
            None => {
                let gpus = check::nodes(self)?.gpus;
                let found = LaunchMemo {
                    launcher: choose::launcher(self)?,
                    gpus,
                };
                memory::keep(self, &found)?;
                found
            }
        };
        let gpus = self.job.gpus_on_node.unwrap_or(found.gpus);
        Ok((found.launcher, self.shape(gpus)))
    }

    /// Prints the command without asking the nodes: with the first launcher that would be tried.
    fn dry_run(&self) -> anyhow::Result<Code> {
        let shape = self.shape(self.job.gpus_on_node.unwrap_or(0));
        let launcher = choose::first(self)?;
        let words = self
            .step(shape, &self.program(&self.args.sweep)?)
            .command(&launcher, &handed_on());
        print_line!(
            "{}",
            words
                .iter()
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" ")
        )?;
        Ok(Code::Fine)
    }

    fn shape(&self, gpus_on_node: u32) -> StepShape {
        // A process with several GPUs stands for as many ranks; where they do not go up evenly, the last ones stay free.
        let for_processes = match gpus_on_node / self.what.gpus_per_process() {
            0 => gpus_on_node.min(1),
            processes => processes,
        };
        StepShape::new(
            self.job,
            self.args.tasks_per_node.and_then(NonZeroU32::new),
            for_processes,
        )
    }

    /// The folder of the job's results, without a word about where they go.
    fn jobs_folder(&self) -> PathBuf {
        Path::new("results").join(self.job.folder())
    }

    /// This program with other arguments, as the ranks start it.
    fn program(&self, arguments: &[OsString]) -> anyhow::Result<Vec<String>> {
        let program = match &self.args.container_program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?,
        };
        let words = [program.into_os_string()]
            .into_iter()
            .chain(arguments.iter().cloned());
        words
            .map(|word| {
                let unreadable = |word| {
                    Failure::on_all_ranks(Code::Usage, format!("{word:?} is not valid UTF-8"))
                };
                word.into_string().map_err(unreadable)
            })
            .collect()
    }

    fn step<'a>(&'a self, shape: StepShape, program: &'a [String]) -> SlurmStep<'a> {
        SlurmStep {
            shape,
            inside_step: self.job.step.is_some(),
            container: self.container.as_ref(),
            program,
        }
    }

    /// Says what is about to start, and what it cannot show.
    fn say(&self, launcher: &Launcher, shape: StepShape) {
        let SlurmJob {
            id,
            name,
            nodes,
            restarts,
            ..
        } = self.job;
        let by = match launcher {
            Launcher::Srun { mpi } => format!("srun --mpi={mpi}"),
            Launcher::Mpirun(_) => "mpirun".into(),
        };
        let again = if *restarts > 0 {
            format!(", restarted {restarts} times")
        } else {
            String::new()
        };
        let StepShape {
            nodes: count,
            tasks_per_node,
            cpus_per_task,
        } = shape;
        say!(
            "pxnbench: job {id} ({name}{again}): {count} nodes ({}), {tasks_per_node} ranks on each, {cpus_per_task} CPUs a \
             rank, by {by}",
            hosts::compress(nodes)
        );
        if count == 1 && self.what.is_sweep() {
            say!(
                "pxnbench: PXN is impossible on one node: it relays between nodes, so all levels do the same here; ask \
                 for -N 2 or more"
            );
        }
    }
}

/// What mpirun has to hand on by name.
fn handed_on() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| {
            name.starts_with("NCCL_") || ["PATH", "LD_LIBRARY_PATH"].contains(&name.as_str())
        })
        .collect();
    names.sort_unstable();
    names
}

/// `word` as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
