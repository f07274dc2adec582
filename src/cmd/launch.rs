//! `pxnbench launch`: starts a sweep, the doctor or the self-test of the proof on all nodes of the
//! Slurm job around it, or on hosts that are named.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf};

use super::args::values;
use crate::{
    exit::{Code, Failure},
    input::{self, InputKind},
    launch::{
        self, ContainerRequest, LauncherChoice, Request,
        hosts::{self, HostList, HostsRequest, Over},
        join::Master,
    },
    run::target::Target,
};

/// Starts a sweep, the doctor or proof --self-test on all nodes of this Slurm job, or on the hosts
/// of --hosts or --hostfile, one rank per GPU.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Launcher of the ranks in a Slurm job: srun, mpirun, or auto (srun, or mpirun if no --mpi
    /// type works)
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

    /// Processes per node [default: the node's GPUs divided by the sweep's -t and -g; without GPUs,
    /// as many as the job requested, otherwise 2]
    #[arg(
        long,
        visible_alias = "ranks-per-node",
        value_name = "N",
        value_parser = values::positive::<u32>,
        env = "PXNBENCH_TASKS_PER_NODE",
    )]
    tasks_per_node: Option<u32>,

    /// Run in this container image, by pyxis
    #[arg(long, value_name = "IMAGE")]
    container: Option<String>,

    /// Additional mounts, in the format of pyxis' --container-mounts
    #[arg(long, value_name = "MOUNTS", requires = "container")]
    container_mounts: Option<String>,

    /// Path of the program in the container, if it differs from that on the host
    #[arg(long, value_name = "FILE", requires = "container")]
    container_program: Option<PathBuf>,

    /// Start the ranks on these hosts: node1,node2 or node[1-4]; node1:8 has 8 ranks
    #[arg(
        long,
        value_name = "LIST",
        conflicts_with_all = ["hostfile", "container", "mpi"],
        group = "named_hosts",
        help_heading = "Without Slurm",
    )]
    hosts: Option<HostList>,

    /// Start the ranks on the hosts of this file: a name per line, with slots=8 or :8
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["container", "mpi"],
        group = "named_hosts",
        help_heading = "Without Slurm",
    )]
    hostfile: Option<PathBuf>,

    /// How hosts are reached: ssh (the ranks meet over TCP), mpirun (they meet over MPI), or auto
    /// (ssh, but mpirun for host memory)
    #[arg(
        long,
        value_name = "WAY",
        default_value = "auto",
        requires = "named_hosts",
        help_heading = "Without Slurm"
    )]
    over: Over,

    /// Host and port at which the ranks meet over TCP, as all hosts reach it [default: the first
    /// host, port 29500]
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        requires = "named_hosts",
        help_heading = "Without Slurm"
    )]
    master: Option<Master>,

    /// Path of the program on the hosts, if it differs from that here
    #[arg(
        long,
        value_name = "FILE",
        requires = "named_hosts",
        help_heading = "Without Slurm"
    )]
    remote_program: Option<PathBuf>,

    /// Print the command that would start the ranks, and start nothing
    #[arg(long)]
    dry_run: bool,

    /// Sweep to run if the arguments name no collective, such as "all -b 8 -e 1G -f 4"
    #[arg(long, value_name = "ARGUMENTS")]
    default_sweep: Option<String>,

    /// Arguments of the sweep, as without launch; or doctor or proof --self-test, with their own
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns the arguments of the ranks, as they were typed.
    pub fn arguments(&self) -> &[OsString] {
        &self.sweep
    }

    /// Returns the sweep to start with if they name no collective.
    pub fn default_sweep(&self) -> Option<&str> {
        self.default_sweep.as_deref()
    }

    /// Returns the hosts that are named.
    fn hosts(&self) -> anyhow::Result<Option<HostList>> {
        let Some(path) = &self.hostfile else {
            return Ok(self.hosts.clone());
        };
        let text = input::read_text(path, InputKind::Settings)
            .map_err(|error| Failure::of_file("read", path, &error))?;
        match HostList::parse_file(&text) {
            Ok(hosts) => Ok(Some(hosts)),
            Err(why) => Err(Failure::of_file("used", path, &why)),
        }
    }
}

/// Starts the ranks for `target`, which `arguments` stand for, and waits for them.
///
/// # Errors
///
/// Returns an error if there is no job and no host is named, a node is not ready, or no way to
/// start ranks works.
pub fn run(args: Args, target: Target, arguments: Vec<OsString>) -> anyhow::Result<Code> {
    let ranks_per_node = args.tasks_per_node.and_then(NonZeroU32::new);
    if let Some(hosts) = args.hosts()? {
        return hosts::run(&HostsRequest {
            target,
            arguments,
            hosts,
            over: args.over,
            ranks_per_node,
            master: args.master,
            remote_program: args.remote_program,
            dry_run: args.dry_run,
        });
    }
    let container = args.container.map(|image| ContainerRequest {
        image,
        mounts: args.container_mounts,
        program: args.container_program,
    });
    launch::run(&Request {
        target,
        arguments,
        by: args.by,
        mpi: args.mpi,
        tasks_per_node: ranks_per_node,
        container,
        dry_run: args.dry_run,
    })
}
