//! `pxnbench launch`: starts a sweep, or the doctor, on all nodes of the Slurm job around it.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf};

use super::args::values;
use crate::{
    exit::Code,
    launch::{self, ContainerRequest, LauncherChoice, Request, Target},
};

/// Starts a sweep, or the doctor, on all nodes of this Slurm job, one rank per GPU.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What starts the ranks: srun, mpirun, or auto (srun, or mpirun if no --mpi type works)
    #[arg(
        long,
        value_name = "LAUNCHER",
        default_value = "auto",
        env = "PXNBENCH_LAUNCHER"
    )]
    by: LauncherChoice,

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

impl Args {
    /// Returns the arguments of the ranks.
    pub fn arguments(&self) -> &[OsString] {
        &self.sweep
    }
}

/// Starts the ranks for `target`, which the arguments of the ranks stand for, and waits for them.
///
/// # Errors
///
/// Returns an error if there is no job, a node is not ready, or no way to start ranks works.
pub fn run(args: Args, target: Target) -> anyhow::Result<Code> {
    let container = args.container.map(|image| ContainerRequest {
        image,
        mounts: args.container_mounts,
        program: args.container_program,
    });
    launch::run(&Request {
        target,
        arguments: args.sweep,
        by: args.by,
        mpi: args.mpi,
        tasks_per_node: args.tasks_per_node.and_then(NonZeroU32::new),
        container,
        dry_run: args.dry_run,
    })
}
