//! The place of a node's ranks among all.

/// The place of a node's ranks among all, and where all meet.
#[derive(Debug)]
pub(super) struct Place {
    /// The number of the node.
    pub(super) node: u32,
    /// The number of nodes.
    pub(super) nodes: u32,
    pub(super) ranks_per_node: u32,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Place {
    /// Returns the number of the first rank of this node.
    pub(super) fn first_rank(&self) -> u32 {
        self.node * self.ranks_per_node
    }

    /// Returns the number of ranks on all nodes.
    pub(super) fn ranks(&self) -> u32 {
        self.nodes * self.ranks_per_node
    }
}
