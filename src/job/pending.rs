//! [`Pending`]: a collective that runs while this rank computes.

use std::time::Duration;

use crate::{
    backend::{Element, host::StartedOperation},
    world::deadline,
};

/// A collective that was started, with its buffer. It has ended on this rank when [`Pending::wait`]
/// returns.
#[must_use = "it ends only if it is waited for"]
pub struct Pending<'job, T: Element> {
    pub(super) started: StartedOperation<'job, T>,
    pub(super) timeout: Duration,
}

impl<T: Element> Pending<'_, T> {
    /// Returns whether it has ended. Most MPI libraries move data only while they are called, so a
    /// rank that computes for long calls this from time to time.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        self.started.has_ended()
    }

    /// Waits for the end, and returns the buffer with the result.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub fn wait(self) -> anyhow::Result<Vec<T>> {
        let _guard = deadline::limit("a started all_reduce", self.timeout);
        self.started.wait()
    }
}
