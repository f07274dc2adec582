//! Threads that work at the same time, each on ranks of its own.

use std::thread;

use crate::{exit, world::abort};

/// Calls `step` for each of `items`, each on its own thread if there are several. Returns the
/// results in their order.
///
/// # Errors
/// Returns an error if the step fails for the only item; if it fails for one of several, the job
/// ends here.
pub(super) fn for_each<T: Send, R: Send>(
    mut items: Vec<T>,
    step: impl Fn(T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    if items.len() == 1 {
        return items.pop().into_iter().map(step).collect();
    }
    thread::scope(|scope| {
        let step = &step;
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || step(item).unwrap_or_else(|error| end_job(&error))))
            .collect();
        threads.into_iter().map(join).collect()
    })
}

/// Ends the job with the error of one of several threads: the others may be waiting for it inside
/// an NCCL call, from which they would never return to report anything.
pub(super) fn end_job(error: &anyhow::Error) -> ! {
    abort::job(exit::code_of(error), &format!("{error:#}"));
}

/// Returns what a thread returned. A panic has ended the job already.
pub(super) fn join<R>(thread: thread::ScopedJoinHandle<'_, R>) -> anyhow::Result<R> {
    thread
        .join()
        .map_err(|_| anyhow::anyhow!("a thread panicked"))
}
