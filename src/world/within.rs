//! [`do_within`]: work that may hang, such as on a file system that does not answer.

use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// Does `work` on a thread of its own, and waits for its end, but no longer than `limit`. Returns
/// whether it has ended.
///
/// # Errors
/// Returns an error if the thread cannot be started; `work` is not done then.
pub(super) fn do_within(limit: Duration, work: impl FnOnce() + Send + 'static) -> io::Result<bool> {
    let (sender, end) = mpsc::channel::<()>();
    thread::Builder::new().spawn(move || {
        work();
        drop(sender);
    })?;
    // Nothing is ever sent.
    Ok(end.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_not_waited_for() {
        let (_never_dropped, never) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = never.recv();
        };
        assert!(!do_within(Duration::from_millis(20), hangs).expect("a thread"));
        assert!(do_within(Duration::from_secs(60), || ()).expect("a thread"));
    }
}
