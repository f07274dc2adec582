//! What is to run on which hosts.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf, str::FromStr};

use super::list::HostList;
use crate::{
    env,
    exit::{Code, Failure},
    launch::{
        context::{exported, utf8},
        join::{DEFAULT_PORT, Master, check_count},
        probe::FewestGpus,
    },
    run::{backend::BackendChoice, target::Target},
};

/// A variable that is of one host only.
const OF_THIS_HOST: &str = "NCCL_HOSTID";

/// The variable with which NCCL lets ranks share a GPU.
const MAY_SHARE_GPUS: &str = "NCCL_MULTI_RANK_GPU_ENABLE";

/// A launch on hosts that is requested.
#[derive(Debug)]
pub struct HostsRequest {
    /// What the ranks do.
    pub target: Target,
    /// The arguments of the ranks.
    pub arguments: Vec<OsString>,
    /// The hosts, in the order of their ranks.
    pub hosts: HostList,
    /// What starts the ranks.
    pub over: Over,
    /// Processes per host, if the number is given.
    pub ranks_per_node: Option<NonZeroU32>,
    /// The host and port at which the ranks meet, if not those of the first host.
    pub master: Option<Master>,
    /// The path of the program on the hosts, if it is another one.
    pub remote_program: Option<PathBuf>,
    /// Whether the commands are only printed.
    pub dry_run: bool,
}

/// A value of `--over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// ssh; mpirun for what needs MPI.
    Auto,
    /// ssh: the ranks meet over TCP.
    Ssh,
    /// mpirun: the ranks meet over MPI.
    Mpirun,
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Over::Auto),
            "ssh" => Ok(Over::Ssh),
            "mpirun" => Ok(Over::Mpirun),
            _ => Err("there are auto, ssh and mpirun".into()),
        }
    }
}

/// What is to run, in plain words.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) hosts: HostList,
    pub(super) backend: Option<BackendChoice>,
    /// Processes per host, if they are known before the hosts are asked.
    pub(super) ranks_per_node: Option<u32>,
    pub(super) gpus_per_process: u32,
    /// Whether no two ranks may share a GPU.
    pub(super) needs_own_gpus: bool,
    /// The host at which the ranks meet.
    pub(super) master: String,
    pub(super) port: u16,
    /// The path of the program on the hosts.
    pub(super) program: String,
    /// The working folder.
    pub(super) folder: String,
    /// What the ranks need of the environment here: names and values.
    pub(super) variables: Vec<(String, String)>,
    /// The arguments of the ranks.
    pub(super) arguments: Vec<String>,
}

impl Plan {
    /// Returns the plan for `request`.
    ///
    /// # Errors
    /// Returns an error if hosts have different numbers of slots, or if a path or an argument is
    /// not UTF-8.
    pub(super) fn new(request: &HostsRequest) -> anyhow::Result<Plan> {
        let ranks_per_node = match request.ranks_per_node {
            Some(given) => Some(given.get()),
            None => request.hosts.slots().map_err(usage)?,
        };
        let nodes = request.hosts.0.len() as u32;
        check_count(nodes, ranks_per_node.unwrap_or(1)).map_err(usage)?;
        let program = match &request.remote_program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?,
        };
        let mut arguments = Vec::new();
        for argument in &request.arguments {
            arguments.push(utf8(argument.clone())?);
        }
        let names = request.hosts.names();
        let (host, port) = match &request.master {
            Some(Master { host, port }) => (host.as_str(), *port),
            None => (names[0], None),
        };
        let backend = request.target.backend();
        let may_share = env::var(MAY_SHARE_GPUS).is_some();
        Ok(Plan {
            backend,
            ranks_per_node,
            gpus_per_process: request.target.gpus_per_process(),
            needs_own_gpus: backend.is_some_and(BackendChoice::may_use_gpus) && !may_share,
            master: host.to_owned(),
            port: port.unwrap_or(DEFAULT_PORT),
            program: utf8(program.into_os_string())?,
            folder: utf8(std::env::current_dir()?.into_os_string())?,
            variables: variables(request.dry_run),
            arguments,
            hosts: request.hosts.clone(),
        })
    }

    /// Returns the number of hosts.
    pub(super) fn nodes(&self) -> u32 {
        self.hosts.0.len() as u32
    }

    /// Returns the processes per host for the GPUs of the host that has the fewest.
    pub(super) fn processes_with(&self, fewest: &FewestGpus) -> u32 {
        (fewest.gpus / self.gpus_per_process).max(1)
    }
}

/// Returns the variables that the ranks need, with their values; without those of secrets if they
/// are only shown.
fn variables(are_shown: bool) -> Vec<(String, String)> {
    let names = exported().into_iter();
    let names = names.filter(|name| name != OF_THIS_HOST);
    names
        .filter_map(|name| {
            let value = env::var(&name)?;
            let shown = if are_shown {
                env::recorded(&name, value)
            } else {
                value
            };
            Some((name, shown))
        })
        .collect()
}

pub(super) fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}
