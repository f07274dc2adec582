//! The rails that the two trees of an all_reduce take.
//!
//! Half of the channels use one binary tree of the nodes, the others another one, mirrored or shifted (graph/trees.cc,
//! `ncclGetDtree`). Data go up to the parent and down again. On GPUs of compute capability 9.0 and newer, all of a node's ends
//! of a tree are at the GPU beside the NIC (graph/search.cc, `ncclTopoCompute`: the pattern "tree" is tried before paths
//! through relays), so that a tree needs none. Older GPUs prefer a pattern whose ends are at two GPUs.

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
        return Err("NCCL finds trees by a search, whose outcome its rules decide only for one or two GPUs per node that each have a NIC".into());
    }
    if cluster.shape.is_none() && cluster.gpus() > 1 {
        return Err("the shape of a tree depends on the generation of the GPUs".into());
    }
    if !settings.has_p2p || !settings.has_gpudirect {
        return Err(
            "the trees of GPUs without NVLink or GPUDirect RDMA depend on NCCL's search".into(),
        );
    }
    let rails = cluster.rails() as u64;
    let bytes = match case.collective {
        Collective::AllReduce => channels_that_divide(cluster, case).and_then(|channels| {
            let bytes = case.counts.send * case.dtype.size();
            evenly(channels).map(|()| bytes / TREES / rails)
        }),
        other => Err(format!("a {other} along trees is not derived")),
    };
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
            .and_then(|channels| evenly(channels).map(|()| channels / TREES / rails)),
        doubt_of_bytes: bytes.err(),
    })
}

/// Checks that the trees share the channels of two rails evenly.
fn evenly(channels: u64) -> Result<(), String> {
    if channels.is_multiple_of(2 * TREES) {
        return Ok(());
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

/// Returns the parent in a tree in which node 0 is the root, odd nodes are leaves, and a node is between its two subtrees.
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
