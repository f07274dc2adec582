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

/// Checks that all ranks can be numbered.
///
/// # Errors
/// Returns an error if there are more than fit.
pub(in crate::launch) fn check_count(nodes: u32, ranks_per_node: u32) -> Result<(), String> {
    match nodes.checked_mul(ranks_per_node) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{nodes} nodes of {ranks_per_node} ranks are too many"
        )),
    }
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
