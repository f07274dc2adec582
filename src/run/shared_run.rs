//! [`SharedRun`]: the run's meta data, apart from its files.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::record::RunMeta;

/// The run's meta data. A file that takes long to write holds up nobody who reads or changes them.
#[derive(Clone)]
pub(super) struct SharedRun(Arc<Mutex<Arc<RunMeta>>>);

impl SharedRun {
    /// Shares `run`.
    pub(super) fn new(run: RunMeta) -> SharedRun {
        SharedRun(Arc::new(Mutex::new(Arc::new(run))))
    }

    /// Returns the meta data as they are now.
    pub(super) fn get(&self) -> Arc<RunMeta> {
        Arc::clone(&self.lock())
    }

    /// Changes them. Whoever has got them before keeps what they were.
    pub(super) fn change(&self, change: impl FnOnce(&mut RunMeta)) {
        change(Arc::make_mut(&mut self.lock()));
    }

    fn lock(&self) -> MutexGuard<'_, Arc<RunMeta>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
