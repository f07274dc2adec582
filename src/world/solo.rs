//! A world of one process without MPI, for tasks that need no ranks.

use super::World;

/// This process alone.
pub struct Solo;

impl World for Solo {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn barrier(&self) {}

    fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }

    fn all_reduce_sum(&self, value: u64) -> u64 {
        value
    }

    fn mean(&self, value: f64) -> f64 {
        value
    }

    fn library(&self) -> String {
        String::new()
    }

    fn finish(self: Box<Self>) {}
}
