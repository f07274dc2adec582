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
    /// Adds a message.
    pub(super) fn add_message(&mut self, numbers: Option<RingNumbers>) {
        self.connected += 1;
        if let Some(numbers) = numbers {
            self.with_numbers += 1;
            self.pxn += u64::from(numbers.pxn);
            self.gpudirect += u64::from(numbers.gpudirect);
        }
    }

    /// Adds the messages of `other`.
    pub(super) fn add(&mut self, other: &Rings) {
        self.connected += other.connected;
        self.with_numbers += other.with_numbers;
        self.pxn += other.pxn;
        self.gpudirect += other.gpudirect;
    }
}

/// Paths that NCCL found in the nodes, and those of the graphs that it made of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GraphPaths {
    /// Path types of rings between nodes.
    pub(super) rings: PathTypes,
    /// Path types of trees and other graphs between nodes.
    pub(super) trees: PathTypes,
    /// Path types inside nodes.
    pub(super) nodes: GpuPaths,
    /// Whether a node has no GPU but the one whose paths a line lists.
    has_lone_gpu: bool,
}

impl GraphPaths {
    /// Adds a message about graphs, and returns the topic that quotes its line.
    pub(super) fn add_message(&mut self, message: &Message<'_>) -> Option<Topic> {
        match *message {
            Message::Pattern(RING, path) => {
                self.rings.insert(path);
                Some(Topic::RingPattern)
            }
            Message::Pattern(_, path) => {
                self.trees.insert(path);
                Some(Topic::TreePattern)
            }
            Message::Paths(paths) => {
                self.nodes.insert(paths);
                self.has_lone_gpu |= paths.gpus.is_empty() && !paths.nics.is_empty();
                Some(Topic::Paths)
            }
            _ => None,
        }
    }

    /// Adds the paths of `other`.
    pub(super) fn add(&mut self, other: &GraphPaths) {
        self.rings.insert(other.rings);
        self.trees.insert(other.trees);
        self.nodes.insert(other.nodes);
        self.has_lone_gpu |= other.has_lone_gpu;
    }

    /// Returns whether the log has neither paths nor graphs.
    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty() && self.trees.is_empty() && self.nodes.gpus.is_empty()
    }

    /// Returns whether each node whose paths are known has one GPU.
    pub(super) fn has_one_gpu_per_node(&self) -> bool {
        self.has_lone_gpu && self.nodes.gpus.is_empty()
    }
}
