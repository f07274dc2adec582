//! What a caller asks of a launch.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf, str::FromStr};

use crate::run::target::Target;

/// A launch that is requested.
#[derive(Debug)]
pub struct Request {
    /// What the ranks do.
    pub target: Target,
    /// The arguments of the ranks, as they were typed.
    pub arguments: Vec<OsString>,
    /// What starts the ranks.
    pub by: LauncherChoice,
    /// srun's `--mpi` type, if it is given.
    pub mpi: Option<String>,
    /// Processes per node, if the number is given.
    pub tasks_per_node: Option<NonZeroU32>,
    /// The container to run the ranks in.
    pub container: Option<ContainerRequest>,
    /// Whether the command is only printed.
    pub dry_run: bool,
}

/// A container that is requested.
#[derive(Debug)]
pub struct ContainerRequest {
    /// The image.
    pub image: String,
    /// Additional mounts, as pyxis takes them.
    pub mounts: Option<String>,
    /// Path of the program in the container, if it is another one.
    pub program: Option<PathBuf>,
}

/// A value of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherChoice {
    /// srun, or mpirun if no `--mpi` type works.
    Auto,
    /// srun.
    Srun,
    /// mpirun.
    Mpirun,
}

impl LauncherChoice {
    /// Returns the name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            LauncherChoice::Auto => "auto",
            LauncherChoice::Srun => "srun",
            LauncherChoice::Mpirun => "mpirun",
        }
    }
}

impl FromStr for LauncherChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(LauncherChoice::Auto),
            "srun" => Ok(LauncherChoice::Srun),
            "mpirun" => Ok(LauncherChoice::Mpirun),
            _ => Err("there are auto, srun and mpirun".into()),
        }
    }
}
