//! What the ranks of a launch do: measure, or examine the nodes that they are on.

use std::path::{Path, PathBuf};

use crate::run::{backend::BackendChoice, request::Request as Sweep};

/// What the ranks are started for.
#[derive(Debug)]
pub enum Target {
    /// A sweep.
    Sweep(Box<Sweep>),
    /// The doctor, which writes no files and judges for itself what is there.
    Doctor,
}

impl Target {
    fn sweep(&self) -> Option<&Sweep> {
        match self {
            Target::Sweep(sweep) => Some(sweep),
            Target::Doctor => None,
        }
    }

    /// Tells whether the ranks run a sweep.
    pub fn is_sweep(&self) -> bool {
        self.sweep().is_some()
    }

    /// Returns the folder of the files, which is `default` unless the request names another; `None` if none is written.
    pub fn folder(&self, default: &Path) -> Option<PathBuf> {
        self.sweep()?.files.paths(default).folder
    }

    /// Tells whether the ranks only print.
    pub fn only_prints(&self) -> bool {
        self.sweep().is_none_or(|sweep| sweep.list)
    }

    /// Returns the backend that is asked for; the doctor runs none.
    pub fn backend(&self) -> Option<BackendChoice> {
        Some(self.sweep()?.backend)
    }

    /// Returns the number of GPUs per process.
    pub fn gpus_per_process(&self) -> u32 {
        self.sweep().map_or(1, |sweep| sweep.process.gpus())
    }

    /// Returns the libnccl that every node must have.
    pub fn nccl_lib(&self) -> Option<&Path> {
        self.sweep()?.nccl_lib.as_deref()
    }
}
