//! [`Request`]: what is to be rehearsed.

use std::path::PathBuf;

use super::played::PlayedOnRails;
use crate::{
    collective::Collective,
    exit::{Code, Failure},
    levels::Preset,
    rehearsal::cluster::Cluster,
    units::Bytes,
};

/// What is to be rehearsed.
#[derive(Debug)]
pub struct Request {
    /// A cluster for each topology, with the same numbers of nodes, GPUs and rails.
    pub clusters: Vec<Cluster>,
    /// The levels, in the order in which each is compared with the one before.
    pub levels: Vec<&'static Preset>,
    /// The collectives.
    pub collectives: Vec<Collective>,
    /// The size of an operation, as nccl-tests counts it.
    pub size: Bytes,
    /// The root of those that have one.
    pub root: u32,
    /// The channels of collectives by which the theory goes, if not those of NCCL's log.
    pub channels: Option<u64>,
    /// The libnccl to load, if not the usual one.
    pub nccl_lib: Option<PathBuf>,
    /// The most jobs that run at the same time.
    pub jobs_at_once: usize,
    /// Seconds without progress after which a job is ended.
    pub timeout: u32,
    /// What is played on rails.
    pub played: PlayedOnRails,
    /// The folder for the files of all jobs, if they are kept.
    pub out: Option<PathBuf>,
}

impl Request {
    /// Checks that the request can be fulfilled.
    ///
    /// # Errors
    /// Returns an error if something is played that the plugin cannot play, or if there are fewer
    /// than two nodes.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let usage = |what: String| Failure::on_all_ranks(Code::Usage, what);
        let cluster = self.first_cluster();
        self.played.check(cluster.rails()).map_err(usage)?;
        if cluster.nodes < 2 {
            let what = "PXN relays traffic between nodes, so a rehearsal needs at least two. Use \
                        a larger --nodes";
            return Err(usage(what.into()));
        }
        Ok(())
    }

    pub(super) fn first_cluster(&self) -> &Cluster {
        &self.clusters[0]
    }
}
