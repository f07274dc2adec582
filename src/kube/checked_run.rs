//! [`CheckedRun`]: a sweep or a replay that can run on the GPUs of a cluster.

use std::ffi::OsString;

use crate::{
    exit::{Code, Failure},
    run::{backend::BackendChoice, target::Target},
};

/// A sweep or a replay that can run on GPUs.
#[derive(Debug)]
pub struct CheckedRun {
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The GPUs of a process.
    pub gpus_per_process: u32,
    /// Whether it is a sweep.
    pub is_sweep: bool,
}

impl CheckedRun {
    /// Checks what `arguments` ask of the ranks, before anything is made in the cluster.
    ///
    /// # Errors
    ///
    /// Returns an error if `target` cannot run there, or has what the deployment decides.
    pub fn new(arguments: Vec<OsString>, target: &Target) -> anyhow::Result<CheckedRun> {
        let usage = |what: &str| Err(Failure::on_all_ranks(Code::Usage, what));
        let Some(presets) = target.presets() else {
            return usage("kube runs sweeps and replays only. Name collectives or replay");
        };
        if presets.level.is_some() || presets.network.is_some() {
            return usage(
                "kube gives the ranks their level and network. Put --level and --network before \
                 the --",
            );
        }
        if target.names_files() {
            return usage(
                "kube decides where the ranks write. `pxnbench kube results` copies the files, \
                 and its --out says where to",
            );
        }
        let may_use_gpus = matches!(
            target.backend(),
            Some(BackendChoice::Auto | BackendChoice::Nccl)
        );
        if !may_use_gpus {
            return usage("kube measures GPUs. Leave out --backend");
        }
        if let Target::Replay { is_built_in, .. } = target
            && !is_built_in
        {
            return usage(
                "the pods do not have the file of this workload. Name one that is built in: \
                 `pxnbench replay --help` lists them",
            );
        }
        Ok(CheckedRun {
            arguments,
            gpus_per_process: target.gpus_per_process(),
            is_sweep: target.is_sweep(),
        })
    }
}
