//! [`MpiStartReporter`]: a thread that tells the deadline which rank of this node the start of MPI waits for.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use super::{cause, deadline};

/// The interval at which the ranks of this node are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// The thread, which ends when this is dropped.
pub(super) struct MpiStartReporter {
    /// The thread ends once this is gone.
    _end: mpsc::Sender<()>,
}

impl MpiStartReporter {
    /// Starts the thread.
    pub(super) fn start() -> MpiStartReporter {
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            let mut peer = None;
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                // The end of one would take the next one out.
                drop(peer.take());
                peer = cause::awaited().map(deadline::waiting_for);
            }
        };
        // Without the thread the deadline knows less.
        let _ = thread::Builder::new().spawn(work);
        MpiStartReporter { _end: end }
    }
}
