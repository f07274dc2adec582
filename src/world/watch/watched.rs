//! [`Watched`]: a world with the watch over its processes, which ends with it.

use std::sync::mpsc::Sender;

use super::meeting::WatchEvent;
use crate::world::{exchange::World, progress};

/// The processes of a job that are watched. Each exchange that ends is progress.
pub(super) struct Watched {
    pub(super) world: Box<dyn World>,
    /// The way to the thread of the watch.
    pub(super) watch: Sender<WatchEvent>,
}

/// Returns `result`, and notes that there was progress.
fn noted<Result>(result: Result) -> Result {
    progress::tick();
    result
}

impl World for Watched {
    fn rank(&self) -> u32 {
        self.world.rank()
    }

    fn size(&self) -> u32 {
        self.world.size()
    }

    fn barrier(&self) {
        self.world.barrier();
        progress::tick();
    }

    fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
        noted(self.world.broadcast(bytes))
    }

    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        noted(self.world.all_gather(bytes))
    }

    fn all_reduce_sum(&self, value: u64) -> u64 {
        noted(self.world.all_reduce_sum(value))
    }

    fn mean(&self, value: f64) -> f64 {
        noted(self.world.mean(value))
    }

    fn library(&self) -> String {
        self.world.library()
    }

    fn finish(self: Box<Self>) {
        self.world.finish();
        // If its thread is gone, the watch has ended already.
        let _ = self.watch.send(WatchEvent::End);
    }
}
