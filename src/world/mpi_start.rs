//! [`MpiStartReporter`]: a thread that tells the deadline which rank of this node the start of MPI
//! waits for, and the user if it takes long.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::{
    cause::{self, AwaitedAtStart},
    deadline,
};

/// The interval at which the ranks of this node are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// How long a rank of this node may not come before that is said.
const SAID_AFTER: Duration = Duration::from_secs(15);

/// The same if all ranks of this node have come: with many nodes MPI itself takes a while.
const SAID_OF_OTHERS_AFTER: Duration = Duration::from_secs(30);

/// The thread, which ends when this is dropped.
pub(super) struct MpiStartReporter {
    /// The thread ends once this is gone.
    _end: mpsc::Sender<()>,
}

impl MpiStartReporter {
    /// Starts the thread. MPI may take `limit` to start.
    pub(super) fn start(limit: Duration) -> MpiStartReporter {
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            let began = Instant::now();
            let mut peer = None;
            let mut is_said = false;
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let awaited = cause::awaited();
                if let Some(awaited) = awaited.as_ref().filter(|_| !is_said) {
                    is_said = say_if_late(awaited, began.elapsed(), limit);
                }
                // The end of one would take the next one out.
                drop(peer.take());
                peer = awaited.map(|awaited| deadline::waiting_for(awaited.who));
            }
        };
        // Without the thread the deadline knows less.
        let _ = thread::Builder::new().spawn(work);
        MpiStartReporter { _end: end }
    }
}

/// Says whom MPI waits for once that takes long: for ranks of this node the first one that waits
/// says it, otherwise rank 0. Returns whether this process has.
fn say_if_late(awaited: &AwaitedAtStart, waited: Duration, limit: Duration) -> bool {
    let own_rank = cause::own_rank();
    let speaks = match awaited.is_here {
        true => waited >= SAID_AFTER && own_rank == awaited.first_waiting,
        false => waited >= SAID_OF_OTHERS_AFTER && own_rank == Some(0),
    };
    if speaks {
        say!(
            "pxnbench: MPI_Init has not ended after {} s: it waits for {}. The job ends if \
             MPI_Init takes {} s in all",
            waited.as_secs(),
            awaited.who,
            limit.as_secs()
        );
    }
    speaks
}
