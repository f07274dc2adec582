//! Whether a node stands out as slow: how long its ranks took, relative to the mean over all ranks.
//!
//! In a collective all ranks wait for each other, so much of what a slow node costs shows on all of
//! them; what is left shows where the last of the work is done. A node that stands out here is
//! worth a look; one that does not may still be slow.

use crate::world::{self, World, placement::RankPlacement};

/// A node stands out if its ranks take longer than those of the median node by this factor.
const OUTLIER: f64 = 1.1;

/// Fewer nodes have no median to compare with.
const FEWEST_NODES: usize = 3;

/// The relative time of a node, the mean over its ranks.
struct NodeTime<'a> {
    time: f64,
    host: &'a str,
}

/// Returns a sentence that names the slowest node, the same on every rank; `None` if no node stands
/// out. `own_time` is the time of this process relative to the mean over all.
///
/// # Errors
///
/// Returns an error if a rank's time does not reach the others; that would be a bug.
pub(super) fn remark(
    own_time: Option<f64>,
    placements: &[RankPlacement],
    hosts: &[&str],
    world: &dyn World,
) -> anyhow::Result<Option<String>> {
    let times: Vec<Option<f64>> = world::all_gather(world, &own_time)?;
    let nodes = placements.iter().map(|place| place.node + 1).max();
    let mut of_nodes = Vec::new();
    for node in 0..nodes.unwrap_or(0) {
        let members: Vec<usize> = (0..times.len())
            .filter(|&process| placements[process].node == node)
            .collect();
        let known: Vec<f64> = members
            .iter()
            .filter_map(|&process| times[process])
            .collect();
        if let Some(&first) = members.first()
            && !known.is_empty()
        {
            of_nodes.push(NodeTime {
                time: known.iter().sum::<f64>() / known.len() as f64,
                host: hosts[first],
            });
        }
    }
    Ok(outlier(of_nodes))
}

fn outlier(mut nodes: Vec<NodeTime>) -> Option<String> {
    if nodes.len() < FEWEST_NODES {
        return None;
    }
    nodes.sort_by(|a, b| a.time.total_cmp(&b.time));
    let median = nodes[nodes.len() / 2].time;
    let slowest = nodes.last()?;
    if slowest.time <= median * OUTLIER {
        return None;
    }
    let percent = (slowest.time / median - 1.0) * 100.0;
    let host = slowest.host;
    Some(format!(
        "node {host} stands out: its ranks take {percent:.0} % longer than those of the median \
         node. --stragglers tells which ranks are late"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(time: f64, host: &str) -> NodeTime<'_> {
        NodeTime { time, host }
    }

    #[test]
    fn only_a_node_that_stands_out_is_named() {
        let sentence = outlier(vec![
            node(1.0, "a"),
            node(1.3, "b"),
            node(0.98, "c"),
            node(1.01, "d"),
        ])
        .expect("b stands out");
        assert_eq!(
            sentence,
            "node b stands out: its ranks take 29 % longer than those of the median node. \
             --stragglers tells which ranks are late"
        );
        assert_eq!(
            outlier(vec![node(1.0, "a"), node(1.05, "b"), node(0.98, "c")]),
            None
        );
        assert_eq!(
            outlier(vec![node(0.7, "a"), node(1.3, "b")]),
            None,
            "two nodes have no middle"
        );
        assert_eq!(outlier(Vec::new()), None);
    }
}
