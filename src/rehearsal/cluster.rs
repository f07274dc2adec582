//! [`Cluster`]: equal nodes of GPUs and NICs.

use super::virtual_node::{self, NodeShape};
use crate::{topology::Topology, units::counted};

/// The most ranks of a cluster, because a theory lists the messages between all pairs of ranks.
pub const MOST_RANKS: u64 = 1024;

/// The most channels that NCCL can have (include/device.h, `MAXCHANNELS`): 64 since 2.25, 32
/// before.
pub const MOST_CHANNELS: u64 = 64;

/// The number of channels of NCCL 2.28.3 for collectives on two virtual nodes of two H200 and two
/// rails each, the same at every level.
const RECORDED_CHANNELS: u64 = 8;

/// A cluster of equal nodes. Ranks are numbered node by node, and on a node by GPU.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The number of nodes.
    pub nodes: u64,
    /// The GPUs, NICs and links of each node.
    pub node: Topology,
    /// The shape of a virtual node; `None` if the node comes from a file.
    pub shape: Option<NodeShape>,
    /// The number of channels of NCCL for collectives; `None` if it is unknown, because NCCL finds
    /// it by a search.
    pub channels: Option<u64>,
}

impl Cluster {
    /// Returns a cluster of virtual nodes.
    ///
    /// # Errors
    /// Returns a sentence if there cannot be such nodes, or if the cluster has too many ranks.
    pub fn of_virtual_nodes(
        nodes: u64,
        shape: NodeShape,
        gpus: usize,
        rails: usize,
    ) -> Result<Cluster, String> {
        // A mistyped number is refused before a node of that size is made.
        check_ranks(nodes, gpus)?;
        let bus_ids = virtual_node::placeholders(gpus);
        let node = virtual_node::topology(shape, &bus_ids, rails)?;
        let is_recorded = (nodes, gpus, rails) == (2, 2, 2);
        Ok(Cluster {
            nodes,
            node,
            shape: Some(shape),
            channels: is_recorded.then_some(RECORDED_CHANNELS),
        })
    }

    /// Returns a cluster of nodes like this one.
    ///
    /// # Errors
    /// Returns a sentence if the node has no GPU or no NIC, or if the cluster has too many ranks.
    pub fn of_nodes_like(nodes: u64, node: Topology) -> Result<Cluster, String> {
        if node.gpus.is_empty() {
            return Err("it has no GPU".into());
        }
        if node.nics.is_empty() {
            return Err(
                "it has no NIC; NCCL_TOPO_DUMP_FILE of a job with a network writes them".into(),
            );
        }
        check_ranks(nodes, node.gpus.len())?;
        Ok(Cluster {
            nodes,
            node,
            shape: None,
            channels: None,
        })
    }

    /// Returns the number of GPUs of a node.
    pub fn gpus(&self) -> usize {
        self.node.gpus.len()
    }

    /// Returns the number of NICs of a node.
    pub fn rails(&self) -> usize {
        self.node.nics.len()
    }

    /// Returns the number of ranks: one per GPU.
    pub fn ranks(&self) -> u64 {
        self.nodes * self.gpus() as u64
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: u64) -> u64 {
        rank / self.gpus() as u64
    }

    /// Returns the index on its node of the GPU of a rank.
    pub fn gpu_of(&self, rank: u64) -> usize {
        (rank % self.gpus() as u64) as usize
    }

    /// Returns the rank on this GPU of a node.
    pub fn rank_on(&self, node: u64, gpu: usize) -> u64 {
        node * self.gpus() as u64 + gpu as u64
    }

    /// Returns the name of the topology of a node: its shape, or the file.
    pub fn topology_name(&self) -> &str {
        match self.shape {
            Some(shape) => shape.word(),
            None => &self.node.source,
        }
    }
}

fn check_ranks(nodes: u64, gpus: usize) -> Result<(), String> {
    match nodes.checked_mul(gpus as u64) {
        Some(ranks) if ranks <= MOST_RANKS => Ok(()),
        _ => Err(format!(
            "{} of {} are more than {MOST_RANKS} ranks, the most that are supported. Use fewer",
            counted(nodes, "node"),
            counted(gpus as u64, "GPU")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbered_node_by_node() {
        let cluster = Cluster::of_virtual_nodes(3, NodeShape::Split, 4, 4).expect("a cluster");
        assert_eq!((cluster.ranks(), cluster.rails()), (12, 4));
        assert_eq!((cluster.node_of(6), cluster.gpu_of(6)), (1, 2));
        assert_eq!(cluster.rank_on(1, 2), 6);
    }

    #[test]
    fn a_cluster_has_gpus_nics_and_a_bounded_number_of_ranks() {
        let why = Cluster::of_virtual_nodes(129, NodeShape::Split, 8, 8).expect_err("too many");
        assert_eq!(
            why,
            "129 nodes of 8 GPUs are more than 1024 ranks, the most that are supported. Use fewer"
        );
        assert!(Cluster::of_virtual_nodes(u64::MAX, NodeShape::Split, 8, 8).is_err());
        let most = usize::try_from(u32::MAX).expect("64 bits");
        let why = Cluster::of_virtual_nodes(1, NodeShape::Split, most, most).expect_err("memory");
        assert!(why.starts_with("1 node of 4294967295 GPUs"), "{why}");
        let why = Cluster::of_nodes_like(2, Topology::default()).expect_err("empty");
        assert_eq!(why, "it has no GPU");
    }
}
