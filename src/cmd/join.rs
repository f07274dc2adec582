//! `pxnbench join`: starts the ranks of one node by hand.

use std::{ffi::OsString, num::NonZeroU32};

use super::args::values;
use crate::{
    exit::Code,
    launch::join::{self, JoinRequest, Master},
    levels::{self, Preset},
    run::target::Target,
};

/// Starts the ranks of this node, which meet those of the other nodes over TCP: without MPI, ssh or
/// Slurm. Run the same command on each node, with another NODE_RANK. The table is printed on
/// node 0.
///
/// If PXNBENCH_TOKEN is set, to the same secret on all nodes, ranks that do not know it are turned
/// away.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of this node, from 0
    #[arg(value_name = "NODE_RANK", value_parser = values::natural)]
    node: u32,

    /// Host name or address of node 0, as the other nodes reach it, and its port: node1,
    /// node1:29500, [fd00::1]:29500
    #[arg(value_name = "MASTER[:PORT]")]
    master: Master,

    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    nodes: u32,

    /// Processes per node, the same on all nodes [default: the node's GPUs divided by the sweep's
    /// -t and -g]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    ranks_per_node: Option<u32>,

    /// Port of node 0, if MASTER has none [default: 29500]
    #[arg(long, value_name = "PORT", value_parser = join::parse_port)]
    port: Option<u16>,

    /// PXN level of the sweep: off conservative balanced aggressive default
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = levels::level,
        help_heading = "Options of the sweep",
    )]
    level: Option<&'static Preset>,

    /// Transport of the sweep: auto nvlink pcie shm ib ethernet socket pxn
    #[arg(
        long,
        value_name = "NETWORK",
        value_parser = levels::network,
        help_heading = "Options of the sweep",
    )]
    network: Option<&'static Preset>,

    /// Seconds without progress after which the job is ended, also while it waits for the other
    /// nodes
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = values::natural,
        help_heading = "Options of the sweep",
    )]
    timeout: Option<u32>,

    /// Read the secret of the job and the names of signals from standard input, and end the ranks
    /// when it ends
    #[arg(long, hide = true)]
    controlled: bool,

    /// Arguments of the sweep, as without join; or doctor or proof --self-test, with their own
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "ARGUMENTS"
    )]
    sweep: Vec<OsString>,
}

impl Args {
    /// Returns the arguments of the ranks: those that were typed, and the options of the sweep
    /// among those of join.
    pub fn arguments(&self) -> Vec<OsString> {
        let timeout = self.timeout.map(|seconds| seconds.to_string());
        let options = [
            ("--level", self.level.map(|level| level.name.as_str())),
            (
                "--network",
                self.network.map(|network| network.name.as_str()),
            ),
            ("--timeout", timeout.as_deref()),
        ];
        let mut arguments = self.sweep.clone();
        for (option, value) in options {
            if let Some(value) = value {
                arguments.extend([option.into(), value.into()]);
            }
        }
        arguments
    }
}

/// Starts the ranks for `target`, which `arguments` stand for, and waits for them.
///
/// # Errors
///
/// Returns an error if the arguments contradict each other, or if the ranks cannot be started.
pub fn run(args: Args, target: Target, arguments: Vec<OsString>) -> anyhow::Result<Code> {
    join::run(&JoinRequest {
        target,
        arguments,
        node: args.node,
        nodes: NonZeroU32::new(args.nodes).unwrap_or(NonZeroU32::MIN),
        master: args.master,
        port: args.port,
        ranks_per_node: args.ranks_per_node.and_then(NonZeroU32::new),
        is_controlled: args.controlled,
    })
}
