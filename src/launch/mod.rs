//! `pxnbench launch`: starts a sweep, or the doctor, on all nodes of the Slurm job around it.
//!
//! What differs between sites is found out rather than configured: one task per node says what it
//! runs on, and each way to start ranks is tried with two ranks before it is trusted with all,
//! because `srun --mpi=list` also lists what cannot work.

mod context;
mod follow;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod hosts;
pub mod join;
mod launcher;
pub mod meeting;
mod memo;
mod nodes;
mod outcome;
pub mod probe;
mod process;
mod request;
mod requeue;
mod results;
mod shell;
mod site;
pub mod submit;
mod supervisor;
pub mod template;

use std::path::Path;

use self::context::{Launch, exported};
pub use self::request::{ContainerRequest, LauncherChoice, Request};
use memo::LaunchMemo;

use crate::{
    env::{self, Env},
    exit::{Code, Failure},
    levels,
    slurm::{
        SlurmJob, hosts as node_lists,
        step::{Container, Launcher, StepShape},
    },
    units::counted,
};

/// Starts the ranks and waits for them.
///
/// # Errors
///
/// Returns an error if there is no job, a node is not ready, or no way to start ranks works: a
/// sentence that says what to edit.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let job = SlurmJob::from(&env::var)
        .map_err(|why| Failure::on_all_ranks(Code::Launch, why))?
        .ok_or_else(outside)?;
    refuse_many(&env::var)?;
    let container = match &request.container {
        Some(asked) => Some(container(asked, &env::var)?),
        None => None,
    };
    let launch = Launch {
        request,
        job: &job,
        container,
    };
    if request.dry_run {
        return launch.dry_run();
    }
    let (launcher, shape) = launch.prepare()?;
    launch.announce(&launcher, shape);
    outcome::run(&launch, &launcher, shape)
}

fn outside() -> anyhow::Error {
    let what = "this is not a Slurm job (SLURM_JOB_ID is not set). Use sbatch \
                slurm/pxn_aggressive.sbatch, or run launch inside salloc. Without Slurm, name \
                hosts with --hosts, or run mpirun -np N pxnbench …";
    Failure::on_all_ranks(Code::Launch, what)
}

/// Refuses to run as one of several processes: `srun -n 8 pxnbench launch` would start eight
/// sweeps.
fn refuse_many(env: Env) -> anyhow::Result<()> {
    let tasks = ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"]
        .iter()
        .find_map(|name| env(name)?.parse::<u32>().ok());
    match tasks {
        Some(tasks) if tasks > 1 => {
            let what = format!(
                "launch was itself started {tasks} times: call it once, without srun; it starts \
                 the ranks"
            );
            Err(Failure::on_all_ranks(Code::Launch, what))
        }
        _ => Ok(()),
    }
}

/// Returns the container of the ranks. The job's variables are named one by one, because otherwise
/// those of the image would take precedence over the level.
fn container(asked: &ContainerRequest, env: Env) -> anyhow::Result<Container> {
    let here = std::env::current_dir()?.display().to_string();
    let program = std::env::current_exe()?;
    let folder = program
        .parent()
        .unwrap_or(Path::new(""))
        .display()
        .to_string();
    let mut mounts = vec![format!("{here}:{here}")];
    if asked.program.is_none() && folder != here {
        mounts.push(format!("{folder}:{folder}"));
    }
    mounts.extend(asked.mounts.clone());
    Ok(Container {
        image: asked.image.clone(),
        mounts,
        workdir: here,
        env: nccl_names(env),
    })
}

/// Returns the names of NCCL's variables that are set.
fn nccl_names(env: Env) -> Vec<String> {
    let mut names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("NCCL_"))
        .collect();
    for level in levels::all() {
        for setting in &level.set {
            if env(&setting.name).is_some() {
                names.push(setting.name.clone());
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// What the parts do together.
impl Launch<'_> {
    /// Looks at the nodes, and finds what starts ranks.
    fn prepare(&self) -> anyhow::Result<(Launcher, StepShape)> {
        let memo = match memo::recall(self)? {
            Some(memo) => memo,
            None => {
                let gpus = nodes::check(self)?.gpus;
                let launcher = launcher::find(self)?;
                let memo = LaunchMemo { launcher, gpus };
                memo::keep(self, &memo)?;
                memo
            }
        };
        let gpus = self.job.gpus_on_node.unwrap_or(memo.gpus);
        Ok((memo.launcher, self.shape(gpus)))
    }

    /// Prints the command without asking the nodes: with the first launcher that would be tried.
    fn dry_run(&self) -> anyhow::Result<Code> {
        let shape = self.shape(self.job.gpus_on_node.unwrap_or(0));
        let launcher = launcher::first(self)?;
        let program = self.program(&self.request.arguments)?;
        let words = self.step(shape, &program).command(&launcher, &exported());
        print_line!("{}", shell::joined(&words)?)?;
        Ok(Code::Fine)
    }

    /// Prints what is about to start, and what it cannot show.
    fn announce(&self, launcher: &Launcher, shape: StepShape) {
        let SlurmJob {
            id,
            name,
            nodes,
            restarts,
            ..
        } = self.job;
        let restarted = match restarts {
            0 => String::new(),
            _ => format!(", restarted {}", counted(*restarts, "time")),
        };
        say!(
            "pxnbench: job {id} ({name}{restarted}): {} ({}), {} on each, {} per rank, by {}",
            counted(shape.nodes, "node"),
            node_lists::compress(nodes),
            counted(shape.tasks_per_node, "rank"),
            counted(shape.cpus_per_task, "CPU"),
            launcher::name(launcher),
        );
        if shape.nodes == 1 && self.request.target.is_sweep() {
            say!(
                "pxnbench: PXN is impossible on one node: it relays between nodes, so all levels \
                 behave the same here; request -N 2 or more"
            );
        }
    }
}
