//! The rails that the two trees of an all_reduce use.
//!
//! Half of the channels use one binary tree of the nodes, the other half a second one, which is the
//! first mirrored or shifted (`ncclGetDtree` in graph/trees.cc). Data pass up to the root and down
//! again. On GPUs of compute capability 9.0 and newer, the connections of a node to its parent and
//! its children are all at the GPU beside the NIC, so a tree needs no relay: `ncclTopoCompute`
//! (graph/search.cc) tries this pattern before paths through relays. Older GPUs prefer a pattern
//! with connections at two GPUs.

use super::{
    cluster::Cluster,
    flow::{Flow, Flows},
    node_rules::NodeRules,
    rings::{channels, channels_that_divide},
    settings::PxnSettings,
};
use crate::collective::{Case, Collective};

/// The number of trees.
const TREES: u64 = 2;

/// Derives the flows of a collective along trees on several nodes.
///
/// # Errors
/// Returns the reason if they are not known.
pub(super) fn flows(
    cluster: &Cluster,
    settings: &PxnSettings,
    case: &Case,
) -> Result<Flows, String> {
    let rules = NodeRules::new(cluster, settings);
    let is_known_node = matches!((cluster.gpus(), cluster.rails()), (1, 1) | (2, 2));
    if !is_known_node {
        return Err(
            "NCCL finds trees by a search, whose outcome its rules decide only for one or two \
             GPUs per node that each have a NIC"
                .into(),
        );
    }
    if cluster.shape.is_none() && cluster.gpus() > 1 {
        return Err("the shape of a tree depends on the generation of the GPUs".into());
    }
    if !settings.has_p2p || !settings.has_gpudirect {
        return Err(
            "the trees of GPUs without NVLink or GPUDirect RDMA depend on NCCL's search".into(),
        );
    }
    let bytes = bytes_per_flow(cluster, case);
    let mut flows = Vec::new();
    for tree in 0..TREES {
        for node in 0..cluster.nodes {
            let Some(parent) = parent(tree, cluster.nodes, node) else {
                continue;
            };
            for rail in 0..cluster.rails() {
                let nic = rules.nic(rail)?;
                for (from, to) in [(node, parent), (parent, node)] {
                    flows.push(Flow {
                        from: cluster.rank_on(from, rail),
                        to: cluster.rank_on(to, rail),
                        rail: nic,
                        relay: None,
                        peer_rail: nic,
                        bytes: bytes.clone().unwrap_or_default(),
                    });
                }
            }
        }
    }
    Ok(Flows {
        flows,
        connections_each: channels(cluster)
            .and_then(|channels| channels_of_tree_and_rail(cluster, channels)),
        doubt_of_bytes: bytes.err(),
    })
}

/// Returns the bytes that one tree carries over one rail between a node and its parent, in each
/// direction.
fn bytes_per_flow(cluster: &Cluster, case: &Case) -> Result<u64, String> {
    if case.collective != Collective::AllReduce {
        return Err(format!("a {} along trees is not derived", case.collective));
    }
    let channels = channels_that_divide(cluster, case)?;
    channels_of_tree_and_rail(cluster, channels)?;
    let bytes = case.counts.send * case.dtype.size();
    Ok(bytes / TREES / cluster.rails() as u64)
}

/// Returns the number of channels of each tree on each rail.
///
/// # Errors
/// Returns the reason if they are not equally many.
fn channels_of_tree_and_rail(cluster: &Cluster, channels: u64) -> Result<u64, String> {
    // Two rails at most.
    if channels.is_multiple_of(2 * TREES) {
        return Ok(channels / TREES / cluster.rails() as u64);
    }
    Err(format!(
        "{channels} channels cannot be divided evenly between two trees and the rails"
    ))
}

/// Returns the parent of a node in one of the two trees; `None` for the root.
fn parent(tree: u64, nodes: u64, node: u64) -> Option<u64> {
    if tree == 0 {
        return parent_in_first(nodes, node);
    }
    if nodes.is_multiple_of(2) {
        let mirrored = |node: u64| nodes - 1 - node;
        return parent_in_first(nodes, mirrored(node)).map(mirrored);
    }
    let shifted = (node + nodes - 1) % nodes;
    parent_in_first(nodes, shifted).map(|parent| (parent + 1) % nodes)
}

/// Returns the parent of a node in a tree with root 0 and odd nodes as leaves, in which the number
/// of a node lies between those of its two subtrees; `None` for the root.
fn parent_in_first(nodes: u64, node: u64) -> Option<u64> {
    if node == 0 {
        return None;
    }
    let lowest = 1 << node.trailing_zeros();
    let below = node & !lowest;
    let between = below | (lowest << 1);
    Some(if between < nodes { between } else { below })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trees of 12 and 13 nodes, as NCCL's source draws them.
    #[test]
    fn trees_are_those_that_nccl_draws() {
        let parents = |tree, nodes| -> Vec<i64> {
            let all = 0..nodes;
            all.map(|node| parent(tree, nodes, node).map_or(-1, |node| node as i64))
                .collect()
        };
        let first = [-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 8, 10];
        assert_eq!(parents(0, 12), first);
        let mirrored: Vec<i64> = first
            .iter()
            .rev()
            .map(|parent| if *parent < 0 { -1 } else { 11 - parent })
            .collect();
        assert_eq!(parents(1, 12), mirrored);
        // Node 12 is a leaf of 13 nodes in the first tree, and node 0 in the other.
        assert_eq!(parents(0, 13), [-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8]);
        assert_eq!(parents(1, 13), [9, -1, 3, 5, 3, 9, 7, 5, 7, 1, 11, 0, 11]);
    }

    #[test]
    fn each_tree_has_one_root_and_no_circle() {
        for nodes in 1..70 {
            for tree in 0..TREES {
                let roots = (0..nodes).filter(|node| parent(tree, nodes, *node).is_none());
                assert_eq!(roots.count(), 1);
                for node in 0..nodes {
                    let mut steps = 0;
                    let mut at = node;
                    while let Some(up) = parent(tree, nodes, at) {
                        assert!(up < nodes);
                        at = up;
                        steps += 1;
                        assert!(steps <= 7, "{nodes} {node}");
                    }
                }
            }
        }
    }
}
