//! `pxnbench join`: the ranks of one node, started by hand. Each node gets the same command with
//! another number; the ranks meet over TCP, so neither MPI nor ssh nor Slurm is needed.

mod control;
mod ends;
mod environment;
mod master;
mod place;
pub mod virtual_nodes;

use std::{
    ffi::OsString, io, num::NonZeroU32, os::fd::AsFd, path::Path, process::Command, process::Stdio,
};

pub(super) use self::master::with_port;
pub use self::master::{DEFAULT_PORT, Master, parse_port};
use self::place::Place;
pub(super) use self::place::check_count;
use super::supervisor::{Patience, ProcessCommand, Signals, Supervisor};
use crate::{
    env,
    exit::{Code, Failure},
    facts::nvidia,
    native::nvml::Inventory,
    run::{backend::BackendChoice, target::Target},
    world::{placement, signal, tcp::TOKEN},
};

/// The ranks of a node that are requested.
#[derive(Debug)]
pub struct JoinRequest {
    /// What the ranks do.
    pub target: Target,
    /// The arguments of the ranks.
    pub arguments: Vec<OsString>,
    /// The number of this node, from 0.
    pub node: u32,
    /// The number of nodes.
    pub nodes: NonZeroU32,
    /// The host and port at which the ranks meet.
    pub master: Master,
    /// The port, if it is given apart from the host.
    pub port: Option<u16>,
    /// Processes per node, if the number is given.
    pub ranks_per_node: Option<NonZeroU32>,
    /// Whether another process of this program started this one, and controls it through standard
    /// input.
    pub is_controlled: bool,
}

/// Starts the ranks of this node, waits for them, and returns the exit code.
///
/// # Errors
///
/// Returns an error if the request contradicts itself, or if the ranks cannot be started.
pub fn run(request: &JoinRequest) -> anyhow::Result<Code> {
    let place = place_of(request)?;
    let token = match request.is_controlled {
        true => Some(control::follow()?),
        false => None,
    };
    let ranks = commands(&place, &request.arguments, token.as_deref())?;
    let cannot = |error: io::Error| {
        let what = format!("the ranks cannot be started: {error}");
        Failure::on_all_ranks(Code::Launch, what)
    };
    let supervisor = Supervisor::start(ranks, Patience::default()).map_err(cannot)?;
    let ends = supervisor.wait()?;
    let host = placement::host_name();
    let sees_rank_0 = place.node == 0 || request.is_controlled;
    let end = ends::judge(&ends, &host, sees_rank_0, signal::stops_now());
    if let Some(sentence) = end.sentence {
        say!("pxnbench: {sentence}");
    }
    Ok(end.code)
}

/// Returns the place of this node's ranks.
fn place_of(request: &JoinRequest) -> anyhow::Result<Place> {
    let usage = |what: String| Failure::on_all_ranks(Code::Usage, what);
    let nodes = request.nodes.get();
    if request.node >= nodes {
        let what = format!(
            "there is no node {} among {nodes}. Number the nodes from 0 to {}",
            request.node,
            nodes - 1
        );
        return Err(usage(what));
    }
    if request.target.backend() == Some(BackendChoice::Host) {
        let what =
            "the host backend needs MPI, which join does without. Use mpirun, or --backend nccl";
        return Err(usage(what.into()));
    }
    let port = match (request.master.port, request.port) {
        (Some(one), Some(other)) if one != other => {
            let what = format!("the port is given twice, as {one} and as {other}. Leave one out");
            return Err(usage(what));
        }
        (one, other) => one.or(other).unwrap_or(DEFAULT_PORT),
    };
    let ranks_per_node = match request.ranks_per_node {
        Some(given) => given.get(),
        None => one_per_gpu(&request.target).map_err(usage)?,
    };
    check_count(nodes, ranks_per_node).map_err(usage)?;
    Ok(Place {
        node: request.node,
        nodes,
        ranks_per_node,
        host: request.master.host.clone(),
        port,
    })
}

/// Returns the commands of this node's ranks: this program again. `token` is the secret of the job,
/// if it is not in the environment.
fn commands(
    place: &Place,
    arguments: &[OsString],
    token: Option<&str>,
) -> anyhow::Result<Vec<ProcessCommand>> {
    let mut ranks = Vec::new();
    for local_rank in 0..place.ranks_per_node {
        let rank = place.first_rank() + local_rank;
        let mut command = command(place, local_rank, arguments)?;
        command.stdout(stdout_of(rank)?);
        if let Some(token) = token {
            command.env(TOKEN, token);
        }
        ranks.push(ProcessCommand {
            number: rank,
            command,
            signals: Signals::Direct,
        });
    }
    Ok(ranks)
}

/// Returns the command of the rank that has this number on its node.
fn command(place: &Place, local_rank: u32, arguments: &[OsString]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    for (name, _) in std::env::vars_os() {
        if environment::is_of_a_launcher(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .envs(environment::of_rank(place, local_rank))
        .stdin(Stdio::null());
    Ok(command)
}

/// Returns where a rank prints to. Only rank 0 has a table to print; what a library prints on
/// another rank is a message.
pub(super) fn stdout_of(rank: u32) -> io::Result<Stdio> {
    if rank == 0 {
        return Ok(Stdio::inherit());
    }
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    Ok(stderr.into())
}

/// Returns how many processes this node has room for, with the GPUs that each of them drives.
fn one_per_gpu(target: &Target) -> Result<u32, String> {
    let gpus = match nvidia::visible(&env::var) {
        Some(0) => {
            return Err("CUDA_VISIBLE_DEVICES shows no GPU. Give --ranks-per-node".into());
        }
        Some(gpus) => gpus,
        None => match nvidia::count(Path::new("/"), &env::var) {
            0 => in_inventory()?,
            gpus => gpus,
        },
    };
    Ok((gpus / target.gpus_per_process()).max(1))
}

/// Returns the number of GPUs that NVML lists: on some machines no device file shows them.
fn in_inventory() -> Result<u32, String> {
    let why = match Inventory::read() {
        Ok(inventory) if !inventory.gpus.is_empty() => return Ok(inventory.gpus.len() as u32),
        Ok(_) => "NVML lists no GPU".to_owned(),
        Err(why) => why,
    };
    Err(format!(
        "the number of GPUs of {} is unknown: there is no /dev/nvidia0, and {why}. Give \
         --ranks-per-node",
        placement::host_name()
    ))
}
