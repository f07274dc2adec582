//! [`Target`]: what ranks are started for: to measure, or to examine the nodes that they are on.

use std::path::{Path, PathBuf};

use super::{backend::BackendChoice, presets::Presets, request::Request};

/// What the ranks are started for.
#[derive(Debug)]
pub enum Target {
    /// A sweep.
    Sweep(Box<Request>),
    /// The replay of a training step, which writes files of its own.
    Replay {
        /// The backend that is requested.
        backend: BackendChoice,
        /// The libnccl to load, if not the usual one.
        nccl_lib: Option<PathBuf>,
        /// Level, resources and network.
        presets: Presets,
        /// The folder that is named for the files.
        out: Option<PathBuf>,
        /// Whether the ranks need no file to know the workload.
        is_built_in: bool,
        /// MiB of a bucket, if the workload has buckets of a size that is chosen.
        bucket_mb: Option<f64>,
    },
    /// The doctor, which writes no files and judges for itself what is there.
    Doctor,
    /// The self-test of the proof, which writes no files and needs NCCL.
    SelfTest {
        /// The libnccl to load, if not the usual one.
        nccl_lib: Option<PathBuf>,
    },
}

impl Target {
    fn sweep(&self) -> Option<&Request> {
        match self {
            Target::Sweep(sweep) => Some(sweep),
            Target::Replay { .. } | Target::Doctor | Target::SelfTest { .. } => None,
        }
    }

    /// Returns whether the ranks run a sweep.
    pub fn is_sweep(&self) -> bool {
        self.sweep().is_some()
    }

    /// Returns level, resources and network; `None` for what measures nothing.
    pub fn presets(&self) -> Option<&Presets> {
        match self {
            Target::Sweep(sweep) => Some(&sweep.presets),
            Target::Replay { presets, .. } => Some(presets),
            Target::Doctor | Target::SelfTest { .. } => None,
        }
    }

    /// Returns whether the request names a file or folder to write.
    pub fn names_files(&self) -> bool {
        match self {
            Target::Sweep(sweep) => sweep.files.names_any(),
            Target::Replay { out, .. } => out.is_some(),
            Target::Doctor | Target::SelfTest { .. } => false,
        }
    }

    /// Returns the number that the request gives this repetition; 0 if none.
    pub fn repeat(&self) -> u32 {
        self.sweep().map_or(0, |sweep| sweep.repeat)
    }

    /// Returns MiB of a bucket, if the ranks replay a workload that has buckets of a size that is
    /// chosen.
    pub fn bucket_mb(&self) -> Option<f64> {
        match self {
            Target::Replay { bucket_mb, .. } => *bucket_mb,
            Target::Sweep(_) | Target::Doctor | Target::SelfTest { .. } => None,
        }
    }

    /// Returns the folder of the files, which is `default` unless the request names another; `None`
    /// if none is written.
    pub fn folder(&self, default: &Path) -> Option<PathBuf> {
        self.sweep()?.files.paths(default).folder
    }

    /// Returns whether the ranks only print.
    pub fn only_prints(&self) -> bool {
        self.sweep().is_none_or(|sweep| sweep.list)
    }

    /// Returns the backend that is requested; the doctor runs none.
    pub fn backend(&self) -> Option<BackendChoice> {
        match self {
            Target::Sweep(sweep) => Some(sweep.backend),
            Target::Replay { backend, .. } => Some(*backend),
            Target::SelfTest { .. } => Some(BackendChoice::Nccl),
            Target::Doctor => None,
        }
    }

    /// Returns the number of GPUs per process.
    pub fn gpus_per_process(&self) -> u32 {
        self.sweep().map_or(1, |sweep| sweep.process.gpus())
    }

    /// Returns the libnccl that every node must have.
    pub fn nccl_lib(&self) -> Option<&Path> {
        match self {
            Target::Sweep(sweep) => sweep.nccl_lib.as_deref(),
            Target::Replay { nccl_lib, .. } | Target::SelfTest { nccl_lib } => nccl_lib.as_deref(),
            Target::Doctor => None,
        }
    }
}
