//! `pxnbench probe`: what a process that `pxnbench launch` starts on trial says of itself. Hidden:
//! a line of JSON a process.

use std::{
    io::{Read, Write},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::meeting::MeetingCheck;
use crate::{
    backend::nccl::NcclLibrary,
    env,
    exit::{Code, Failure},
    facts::nvidia,
    units::counted,
    world::{self, World, abort, deadline, launch, placement, solo::Solo},
};

/// What the line begins with, so that it is found among what others print.
const MARK: &str = "pxnbench-probe: ";

/// A launch waits no longer than this for MPI to start on two ranks, so the ranks end themselves a
/// little earlier.
const MPI_STARTS: Duration = Duration::from_secs(40);

/// How long a port is held open for the other hosts, if nobody ends it before.
const PORT_IS_HELD: Duration = Duration::from_secs(120);

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its rank, by MPI.
    pub rank: u32,
    /// Ranks that it sees.
    pub size: u32,
    /// Its node by Slurm's name, else its host.
    pub node: String,
    /// The MPI that this binary is built with; empty if that is unknown.
    pub built_with: String,
    /// The MPI that was loaded.
    pub loaded: String,
    /// Version and file of libnccl, or why there is none.
    pub nccl: Result<(String, String), String>,
    /// The evidence of NVIDIA hardware.
    pub hardware: Option<String>,
    /// GPUs that Slurm gave to the task's node, else those there are.
    pub gpus: u32,
    /// The version of this program; older ones did not say.
    #[serde(default)]
    pub version: String,
    /// Whether the place where ranks meet was found good, or why not; `None` if it was not checked.
    #[serde(default)]
    pub meeting: Option<Result<(), String>>,
}

/// Prints the report.
///
/// # Errors
/// Returns an error if MPI does not start.
pub fn run(
    alone: bool,
    nccl_lib: Option<&Path>,
    meeting: Option<&MeetingCheck>,
) -> anyhow::Result<Code> {
    let guard = deadline::limit("MPI_Init", MPI_STARTS);
    let world: Box<dyn World> = if alone {
        Box::new(Solo)
    } else {
        launch::check_before_mpi(&env::var)?;
        world::open::mpi()?
    };
    abort::set_rank(world.rank());
    let report = Report {
        rank: world.rank(),
        size: world.size(),
        node: env::var("SLURMD_NODENAME").unwrap_or_else(placement::host_name),
        built_with: world::mpi::built_with().into(),
        loaded: world::mpi::loaded(),
        nccl: nccl(nccl_lib),
        hardware: nvidia::hardware(Path::new("/")),
        gpus: nvidia::count(Path::new("/"), &env::var),
        version: env!("CARGO_PKG_VERSION").into(),
        meeting: meeting.map(MeetingCheck::check),
    };
    let holds_a_port =
        matches!(meeting, Some(MeetingCheck::Listen { .. })) && report.meeting == Some(Ok(()));
    // One write, so that lines of two ranks do not mix.
    let line = format!("{MARK}{}\n", serde_json::to_string(&report)?);
    let printed = std::io::stdout()
        .write_all(line.as_bytes())
        .and_then(|()| std::io::stdout().flush());
    printed.map_err(|error| {
        Failure::on_this_rank(
            Code::Internal,
            format!("the report cannot be printed: {error}"),
        )
    })?;
    world.finish();
    drop(guard);
    if holds_a_port {
        wait_for_the_end_of_input();
    }
    Ok(Code::Fine)
}

fn wait_for_the_end_of_input() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // What comes does not matter, and an error is an end too.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    // At the end of the limit it has been held long enough.
    let _ = receiver.recv_timeout(PORT_IS_HELD);
}

/// Returns the reports among the lines of `text`, by rank and node.
pub fn reports(text: &str) -> Vec<Report> {
    let json = text
        .lines()
        .filter_map(|line| Some(line.split_once(MARK)?.1));
    let mut all: Vec<Report> = json
        .filter_map(|json| serde_json::from_str(json).ok())
        .collect();
    all.sort_by(|a, b| (a.rank, &a.node).cmp(&(b.rank, &b.node)));
    all
}

/// The node that has the fewest GPUs.
#[derive(Debug)]
pub(super) struct FewestGpus<'a> {
    /// Its name.
    pub(super) node: &'a str,
    /// Its GPUs.
    pub(super) gpus: u32,
    /// What to say if another node has more.
    pub(super) remark: Option<String>,
}

/// Returns the node that has the fewest GPUs, of nodes with their GPUs; `None` if there is no node.
pub(super) fn fewest_gpus<'a>(
    nodes: impl Iterator<Item = (&'a str, u32)> + Clone,
) -> Option<FewestGpus<'a>> {
    let (node, gpus) = nodes.clone().min_by_key(|(_, gpus)| *gpus)?;
    let (other, more) = nodes.max_by_key(|(_, gpus)| *gpus)?;
    let remark = format!(
        "{other} has {} but {node} has only {gpus}. Using {gpus} per node",
        counted(more, "GPU")
    );
    Some(FewestGpus {
        node,
        gpus,
        remark: (gpus < more).then_some(remark),
    })
}

fn nccl(nccl_lib: Option<&Path>) -> Result<(String, String), String> {
    let library = NcclLibrary::load(nccl_lib).map_err(|error| format!("{error:#}"))?;
    Ok((library.version(), library.path().display().to_string()))
}
