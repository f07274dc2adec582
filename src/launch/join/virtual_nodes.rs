//! The ranks of virtual nodes: all of them on this machine, each under the name of its node.

use std::{
    ffi::OsString, fs::File, io, net::Ipv4Addr, path::Path, process::Command, time::Duration,
};

use super::{ends, place::Place};
use crate::{
    exit::{Code, Failure},
    launch::supervisor::{Patience, ProcessCommand, Signals, Supervisor},
    world::{
        placement, signal,
        tcp::{ReservedPort, TOKEN, random_token},
    },
};

/// How long ranks may go on after one of them has ended well.
const TO_END: Duration = Duration::from_secs(60);

/// Ranks on virtual nodes.
pub struct VirtualRanks<'a> {
    /// The number of nodes.
    pub nodes: u32,
    /// Ranks on each of them.
    pub ranks_per_node: u32,
    /// The arguments of all ranks.
    pub arguments: Vec<OsString>,
    /// Returns whether a rank inherits no variable of this name.
    pub is_left_out: fn(&str) -> bool,
    /// Returns the variables of a rank besides those by which the ranks meet.
    pub environment: &'a dyn Fn(u32) -> Vec<(&'static str, String)>,
    /// The file for what they print.
    pub output: &'a Path,
}

/// How the ranks of virtual nodes ended.
#[derive(Debug)]
pub struct VirtualEnd {
    /// The exit code of the rank that failed first.
    pub code: Code,
    /// What none of the ranks can have said.
    pub sentence: Option<String>,
}

/// Starts the ranks, which meet over TCP on this machine, and waits for them. To be called on a
/// thread that lasts as long as they do.
///
/// # Errors
/// Returns an error if they cannot be started.
pub fn run(ranks: &VirtualRanks<'_>) -> anyhow::Result<VirtualEnd> {
    let cannot = |error: io::Error| {
        let what = format!("the ranks of virtual nodes cannot be started: {error}");
        Failure::on_all_ranks(Code::Launch, what)
    };
    let token = random_token()?;
    // Several jobs start at the same time, and NCCL takes many ports.
    let port = ReservedPort::new().map_err(cannot)?;
    let commands = commands(ranks, port.number(), &token).map_err(cannot)?;
    let patience = Patience {
        after_success: TO_END,
        ..Patience::default()
    };
    let ends = Supervisor::start(commands, patience)
        .and_then(Supervisor::wait)
        .map_err(cannot)?;
    let end = ends::judge(&ends, &placement::host_name(), true, signal::stops_now());
    Ok(VirtualEnd {
        code: end.code,
        sentence: end.sentence,
    })
}

/// Returns the commands of all ranks, which meet at `port`. What they print goes to one file.
fn commands(ranks: &VirtualRanks<'_>, port: u16, token: &str) -> io::Result<Vec<ProcessCommand>> {
    let output = File::create(ranks.output)?;
    let mut commands = Vec::new();
    for node in 0..ranks.nodes {
        let place = Place {
            node,
            nodes: ranks.nodes,
            ranks_per_node: ranks.ranks_per_node,
            host: Ipv4Addr::LOCALHOST.to_string(),
            port,
        };
        for local_rank in 0..ranks.ranks_per_node {
            let mut command = command(ranks, &place, local_rank)?;
            command
                .env(TOKEN, token)
                .stdout(output.try_clone()?)
                .stderr(output.try_clone()?);
            commands.push(ProcessCommand {
                number: place.first_rank() + local_rank,
                command,
                signals: Signals::Direct,
            });
        }
    }
    Ok(commands)
}

/// Returns the command of one rank with its environment.
fn command(ranks: &VirtualRanks<'_>, place: &Place, local_rank: u32) -> io::Result<Command> {
    let mut command = super::command(place, local_rank, &ranks.arguments)?;
    for (name, _) in std::env::vars_os() {
        if (ranks.is_left_out)(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.envs((ranks.environment)(place.first_rank() + local_rank));
    Ok(command)
}
