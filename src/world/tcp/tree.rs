//! The tree over which ranks exchange: rank 0 is its root, a message takes O(log n) steps.
//!
//! The first rank of each node is its leader. Leaders form a tree among themselves, and the ranks
//! of a node another one below their leader, so that a message enters a node once. In both, members
//! are numbered in breadth-first order: the parent of member `i` is member `(i - 1) / FAN_OUT`.

use std::collections::BTreeMap;

/// The most children of a rank on its node, and of a leader among leaders.
const FAN_OUT: usize = 16;

/// The tree of a job.
#[derive(Debug)]
pub(in crate::world) struct Tree {
    parents: Vec<Option<u32>>,
    children: Vec<Vec<u32>>,
}

impl Tree {
    /// Returns the tree of ranks whose hosts are `host_ids`, in rank order.
    pub(in crate::world) fn new(host_ids: &[&str]) -> Tree {
        let mut parents = vec![None; host_ids.len()];
        let mut nodes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut leaders = Vec::new();
        for (rank, host_id) in host_ids.iter().enumerate() {
            let ranks = nodes.entry(host_id).or_default();
            ranks.push(rank as u32);
            if ranks.len() == 1 {
                leaders.push(rank as u32);
            }
        }
        for members in nodes.values().chain([&leaders]) {
            for (at, rank) in members.iter().enumerate().skip(1) {
                parents[*rank as usize] = Some(members[(at - 1) / FAN_OUT]);
            }
        }
        let mut children = vec![Vec::new(); parents.len()];
        for (rank, parent) in parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent as usize].push(rank as u32);
            }
        }
        Tree { parents, children }
    }

    /// Returns the parent of `rank`; `None` for rank 0.
    pub(in crate::world) fn parent(&self, rank: u32) -> Option<u32> {
        self.parents[rank as usize]
    }

    /// Returns the children of `rank`, in rank order.
    pub(in crate::world) fn children(&self, rank: u32) -> &[u32] {
        &self.children[rank as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn depth(tree: &Tree, mut rank: u32) -> usize {
        let mut depth = 0;
        while let Some(parent) = tree.parent(rank) {
            assert!(parent < rank, "{parent} is the parent of {rank}");
            rank = parent;
            depth += 1;
        }
        assert_eq!(rank, 0);
        depth
    }

    proptest! {
        #[test]
        fn every_rank_is_below_rank_0_and_none_has_too_many_children(
            hosts in prop::collection::vec(0_u8..20, 1..200)
        ) {
            let names: Vec<String> = hosts.iter().map(u8::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let tree = Tree::new(&names);
            let mut links = 0;
            for rank in 0..names.len() as u32 {
                prop_assert!(depth(&tree, rank) <= 2 + 2);
                let children = tree.children(rank);
                prop_assert!(children.len() <= 2 * FAN_OUT);
                links += children.len();
            }
            prop_assert_eq!(links, names.len() - 1);
        }

        #[test]
        fn a_message_enters_a_node_once(hosts in prop::collection::vec(0_u8..9, 1..100)) {
            let names: Vec<String> = hosts.iter().map(u8::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let tree = Tree::new(&names);
            for (rank, host) in names.iter().enumerate() {
                let is_leader = !names[..rank].contains(host);
                if let Some(parent) = tree.parent(rank as u32) {
                    prop_assert_eq!(names[parent as usize] != *host, is_leader);
                }
            }
        }
    }

    #[test]
    fn it_stays_flat() {
        let deepest = |nodes: usize, each: usize| {
            let names: Vec<String> = (0..nodes * each)
                .map(|rank| (rank / each).to_string())
                .collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let tree = Tree::new(&names);
            (0..names.len() as u32).map(|rank| depth(&tree, rank)).max()
        };
        assert_eq!(deepest(1, 256), Some(2));
        assert_eq!(deepest(32, 8), Some(3));
        assert_eq!(deepest(1024, 8), Some(4));
    }
}
