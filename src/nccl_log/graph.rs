//! Rings, trees, and the paths that NCCL found for them.

use serde::Serialize;

use super::{
    line::{GpuPaths, Message, PathTypes, RingNumbers},
    quotes::Topic,
};

/// NCCL's number of the ring's graph.
const RING: u64 = 4;

/// Messages that rings are connected; each rank logs one per communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rings {
    /// The number of messages.
    pub connected: u64,
    /// Messages with the two numbers (2.24).
    pub with_numbers: u64,
    /// Messages with `use ring PXN 1`.
    pub pxn: u64,
    /// Messages with `GDR 1`.
    pub gpudirect: u64,
}

impl Rings {
    fn add(&mut self, numbers: Option<RingNumbers>) {
        self.connected += 1;
        if let Some(numbers) = numbers {
            self.with_numbers += 1;
            self.pxn += u64::from(numbers.pxn);
            self.gpudirect += u64::from(numbers.gpudirect);
        }
    }
}

/// Graphs and paths.
#[derive(Debug, Default)]
pub(super) struct GraphFacts {
    pub(super) rings: Rings,
    /// The number of messages that trees are connected.
    pub(super) trees: u64,
    /// Path types of rings between nodes.
    pub(super) ring_paths: PathTypes,
    /// Path types of trees and other graphs between nodes.
    pub(super) tree_paths: PathTypes,
    /// Path types inside nodes.
    pub(super) node_paths: GpuPaths,
}

impl GraphFacts {
    /// Adds a message about graphs, and returns the topic that quotes its line.
    pub(super) fn add(&mut self, message: Message<'_>) -> Option<Topic> {
        match message {
            Message::Rings(numbers) => {
                self.rings.add(numbers);
                Some(Topic::Rings)
            }
            Message::Trees => {
                self.trees += 1;
                Some(Topic::Trees)
            }
            Message::Pattern(RING, path) => {
                self.ring_paths.insert(path);
                Some(Topic::RingPattern)
            }
            Message::Pattern(_, path) => {
                self.tree_paths.insert(path);
                Some(Topic::TreePattern)
            }
            Message::Paths(paths) => {
                self.node_paths.insert(paths);
                Some(Topic::Paths)
            }
            _ => None,
        }
    }
}
