//! The cluster of a rehearsal on the command line.

use std::path::{Path, PathBuf};

use super::values;
use crate::{
    exit::{Code, Failure},
    input::{self, InputKind},
    rehearsal::{
        cluster::{Cluster, MOST_CHANNELS},
        virtual_node::NodeShape,
    },
    topology,
    units::counted,
};

/// The word for both topologies that this program makes up.
const BOTH: &str = "both";

/// Equal nodes of GPUs and NICs.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterArgs {
    /// Nodes
    #[arg(
        long,
        value_name = "N",
        value_parser = values::positive::<u64>,
        default_value = "2",
        conflicts_with = "from",
    )]
    nodes: u64,

    /// GPUs per node [default: 2, or those of the file]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, conflicts_with = "from")]
    gpus: Option<u32>,

    /// NICs per node, called rails [default: one per GPU, or those of the file]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, conflicts_with = "from")]
    rails: Option<u32>,

    /// Topology of a node: split (each GPU has a switch of its own), shared (one switch is above
    /// these), both of them one after the other, or a file as NCCL_TOPO_DUMP_FILE writes it
    /// [default: split]
    #[arg(long, value_name = "split|shared|both|FILE")]
    topology: Option<PathBuf>,

    /// Channels that NCCL uses for collectives; its log has them as `coll channels` [default: those
    /// of the log, with --theory those of the recorded runs on two nodes with two GPUs and two
    /// rails, else unknown]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>, conflicts_with = "from")]
    channels: Option<u32>,
}

impl ClusterArgs {
    /// Returns the channels, if they are given.
    pub fn channels(&self) -> Option<u64> {
        self.channels.map(u64::from)
    }

    /// Returns whether a recorded topology of that name is wanted.
    pub fn wants(&self, topology: &str) -> bool {
        match &self.topology {
            None => true,
            Some(wanted) if wanted == Path::new(BOTH) => true,
            Some(wanted) => wanted.to_str() == Some(topology),
        }
    }

    /// Returns a cluster for each topology.
    ///
    /// # Errors
    /// Returns an error if there cannot be such a cluster, or if the file cannot be read.
    pub fn clusters(&self) -> anyhow::Result<Vec<Cluster>> {
        if let Some(channels) = self.channels().filter(|channels| *channels > MOST_CHANNELS) {
            let what = format!("--channels {channels}: NCCL has {MOST_CHANNELS} channels at most");
            return Err(usage(what));
        }
        let topology = self.topology.as_deref().unwrap_or(Path::new("split"));
        if topology == Path::new(BOTH) {
            return NodeShape::ALL
                .into_iter()
                .map(|shape| self.made_up(shape))
                .collect();
        }
        let mut shapes = NodeShape::ALL.into_iter();
        let cluster = match shapes.find(|shape| topology.to_str() == Some(shape.word())) {
            Some(shape) => self.made_up(shape)?,
            None => self.of_file(topology)?,
        };
        Ok(vec![cluster])
    }

    fn made_up(&self, shape: NodeShape) -> anyhow::Result<Cluster> {
        let gpus = self.gpus.unwrap_or(2) as usize;
        let rails = self.rails.map_or(gpus, |rails| rails as usize);
        let cluster = Cluster::of_virtual_nodes(self.nodes, shape, gpus, rails).map_err(usage)?;
        Ok(self.with_channels(cluster))
    }

    fn with_channels(&self, cluster: Cluster) -> Cluster {
        Cluster {
            channels: self.channels().or(cluster.channels),
            ..cluster
        }
    }

    fn of_file(&self, file: &Path) -> anyhow::Result<Cluster> {
        let refused = |why: String| usage(format!("--topology {}: {why}", file.display()));
        let text = input::read_text(file, InputKind::Topology).map_err(|error| {
            refused(format!(
                "it cannot be read: {error}. Name split, shared, both or a file"
            ))
        })?;
        let mut hosts = topology::read(&text).map_err(refused)?;
        if hosts.len() != 1 {
            let what = format!(
                "it holds {}, and a rehearsal has equal nodes",
                counted(hosts.len() as u64, "host")
            );
            return Err(refused(what));
        }
        let mut node = hosts.remove(0);
        node.source = file.display().to_string();
        for (flag, asked, has) in [
            ("--gpus", self.gpus, node.gpus.len()),
            ("--rails", self.rails, node.nics.len()),
        ] {
            if asked.is_some_and(|asked| asked as usize != has) {
                return Err(refused(format!("it has {has}; leave out {flag}")));
            }
        }
        let cluster = Cluster::of_nodes_like(self.nodes, node).map_err(refused)?;
        Ok(self.with_channels(cluster))
    }
}

fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}
