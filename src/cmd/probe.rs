//! `pxnbench probe` (hidden): what a process that `pxnbench launch` starts on trial says of itself.

use std::path::PathBuf;

use crate::{
    exit::Code,
    launch::{
        join::{Master, parse_port},
        meeting::MeetingCheck,
        probe,
    },
};

/// Reports the facts of this process that a launch needs before the run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not start MPI
    #[arg(long)]
    alone: bool,

    /// Use this libnccl, as a run's --nccl-lib does
    #[arg(long, value_name = "FILE")]
    nccl_lib: Option<PathBuf>,

    /// Hold this port open until standard input ends
    #[arg(long, value_name = "PORT", value_parser = parse_port, requires = "greeting")]
    listen: Option<u16>,

    /// Look whether another host holds this port open
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "greeting",
        conflicts_with = "listen"
    )]
    reach: Option<Master>,

    /// What the host that holds the port open says to those that reach it
    #[arg(long, value_name = "WORD")]
    greeting: Option<String>,
}

impl Args {
    fn meeting(&self) -> Option<MeetingCheck> {
        let greeting = self.greeting.clone()?;
        if let Some(port) = self.listen {
            return Some(MeetingCheck::Listen { port, greeting });
        }
        let Master { host, port } = self.reach.clone()?;
        let port = port?;
        Some(MeetingCheck::Reach {
            host,
            port,
            greeting,
        })
    }
}

/// Prints the report.
///
/// # Errors
///
/// Returns an error if MPI does not start.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    probe::run(
        args.alone,
        args.nccl_lib.as_deref(),
        args.meeting().as_ref(),
    )
}
