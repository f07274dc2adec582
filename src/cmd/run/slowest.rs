//! Does a node stand out as slow? From how long its ranks took against the mean over all ranks.
//!
//! In a collective all ranks wait for each other, so that much of what a slow node costs shows on all; what is left shows
//! where the last of the work is done. A node that stands out here is worth a look, one that does not may still be slow.

use crate::world::{self, World, placement::RankPlacement};

/// A node stands out where its ranks take this much longer than those of the node in the middle.
const MUCH: f64 = 1.1;

/// Fewer nodes have no middle to compare with.
const FEWEST_NODES: usize = 3;

/// The sentence that names the slowest node, the same on every rank; `None` where no node stands out.
///
/// # Errors
/// Where a rank's pace does not reach the others; that would be a bug.
pub(super) fn remark(
    pace: Option<f64>,
    places: &[RankPlacement],
    hosts: &[&str],
    world: &dyn World,
) -> anyhow::Result<Option<String>> {
    let paces: Vec<Option<f64>> = world::all_gather(world, &pace)?;
    let of_node = |node: u32| {
        let ranks = (0..paces.len()).filter(|&rank| places[rank].node == node);
        let known: Vec<f64> = ranks.filter_map(|rank| paces[rank]).collect();
        let host = hosts[places.iter().position(|place| place.node == node)?];
        (!known.is_empty()).then(|| (known.iter().sum::<f64>() / known.len() as f64, host))
    };
    let nodes = places.iter().map(|place| place.node + 1).max().unwrap_or(0);
    Ok(judge((0..nodes).filter_map(of_node).collect()))
}

fn judge(mut nodes: Vec<(f64, &str)>) -> Option<String> {
    nodes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = nodes.get(nodes.len() / 2)?.0;
    let (slowest, host) = *nodes.last()?;
    (nodes.len() >= FEWEST_NODES && slowest > middle * MUCH).then(|| {
        let percent = (slowest / middle - 1.0) * 100.0;
        format!("node {host} stands out: its ranks take {percent:.0} % longer than those of the node in the middle")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_stands_out_is_named() {
        let said =
            judge(vec![(1.0, "a"), (1.3, "b"), (0.98, "c"), (1.01, "d")]).expect("b stands out");
        assert_eq!(
            said,
            "node b stands out: its ranks take 29 % longer than those of the node in the middle"
        );
        assert_eq!(judge(vec![(1.0, "a"), (1.05, "b"), (0.98, "c")]), None);
        assert_eq!(
            judge(vec![(0.7, "a"), (1.3, "b")]),
            None,
            "two nodes have no middle"
        );
        assert_eq!(judge(Vec::new()), None);
    }
}
