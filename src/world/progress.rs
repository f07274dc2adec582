//! The progress of this process: what other threads read while the main thread is inside MPI, CUDA
//! or NCCL.
//!
//! The main thread writes atomics, and nothing else, so that a timed loop may do it. Every rank
//! takes the same branch, so the number of the current step says which of two ranks is behind.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The number of the current step; each wait with a deadline is one.
static STEP: AtomicU64 = AtomicU64::new(0);
/// The operations of the current step that are done.
static DONE: AtomicU64 = AtomicU64::new(0);
/// All operations of the current step; 0 if it has none.
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// The operations of the current step that were handed to a device.
static ISSUED: AtomicU64 = AtomicU64::new(0);
/// What else was done, in any unit.
static EVENTS: AtomicU64 = AtomicU64::new(0);
/// About how long an operation of the current step takes, in nanoseconds; 0 if that is unknown.
static OPERATION_NS: AtomicU64 = AtomicU64::new(0);
/// The GPUs of this process, as messages name them.
static GPUS: OnceLock<String> = OnceLock::new();

/// The time between two marks in a stream of operations.
const MARK_EVERY: Duration = Duration::from_millis(250);

/// The most marks in a stream.
const MOST_MARKS: u32 = 4096;

/// The marks of operations whose time is unknown.
const BLIND_MARKS: u32 = 32;

/// The progress at a moment. Any difference between two of them is progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) step: u64,
    pub(super) done: u64,
    pub(super) total: u64,
    issued: u64,
    events: u64,
}

/// Returns the progress so far.
pub(super) fn snapshot() -> Snapshot {
    Snapshot {
        step: STEP.load(Relaxed),
        done: DONE.load(Relaxed),
        total: TOTAL.load(Relaxed),
        issued: ISSUED.load(Relaxed),
        events: EVENTS.load(Relaxed),
    }
}

/// Begins the next step.
pub(super) fn next_step() {
    begin(0);
    STEP.fetch_add(1, Relaxed);
}

/// Begins `total` operations of the current step.
pub fn begin(total: u64) {
    DONE.store(0, Relaxed);
    ISSUED.store(0, Relaxed);
    TOTAL.store(total, Relaxed);
    tick();
}

/// Notes that `count` operations of the current step are done.
#[inline]
pub fn done(count: u64) {
    DONE.store(count, Relaxed);
}

/// Notes that `count` operations of the current step were handed to a device, which takes only so
/// many in advance.
#[inline]
pub fn issued(count: u64) {
    ISSUED.store(count, Relaxed);
}

/// Notes that something was done which is not counted.
#[inline]
pub fn tick() {
    EVENTS.fetch_add(1, Relaxed);
}

/// Notes about how long one of the next operations takes; zero if that is unknown.
pub fn expect_operations_of(time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    OPERATION_NS.store(nanoseconds, Relaxed);
}

/// Returns after how many steps each a stream of `steps` of them, with `operations` operations
/// each, gets a mark, so that one passes about every quarter of a second; `None` if it is over
/// before that.
pub fn steps_per_mark(steps: u32, operations: u32) -> Option<u32> {
    let step_ns = OPERATION_NS.load(Relaxed).saturating_mul(operations.into());
    per_mark(steps, step_ns)
}

fn per_mark(steps: u32, step_ns: u64) -> Option<u32> {
    let per_mark = match step_ns {
        0 => steps.div_ceil(BLIND_MARKS),
        time => {
            let fit = MARK_EVERY.as_nanos() / u128::from(time);
            u32::try_from(fit).unwrap_or(u32::MAX)
        }
    };
    let per_mark = per_mark.max(steps.div_ceil(MOST_MARKS)).max(1);
    (per_mark < steps).then_some(per_mark)
}

/// Notes which GPUs this process uses, as messages name them.
pub fn set_gpus(names: String) {
    // They do not change, so a second call has no effect.
    let _ = GPUS.set(names);
}

/// Returns the GPUs of this process as messages name them; empty if it uses none.
pub(super) fn gpus() -> String {
    GPUS.get().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_a_quarter_of_a_second_apart_and_a_short_block_has_none() {
        // 250 operations of 1 ms.
        assert_eq!(per_mark(2000, 1_000_000), Some(250));
        assert_eq!(per_mark(250, 1_000_000), None);
        assert_eq!(per_mark(20, 1_000), None);
        // Operations of seconds have one mark each.
        assert_eq!(per_mark(20, 3_000_000_000), Some(1));
        assert_eq!(per_mark(1, 3_000_000_000), None);
    }

    #[test]
    fn marks_are_few_also_if_there_are_many_operations_or_their_time_is_unknown() {
        assert_eq!(per_mark(u32::MAX, 1_000_000_000), Some(1 << 20));
        assert_eq!(per_mark(5, 0), Some(1));
        assert_eq!(per_mark(1, 0), None);
        assert_eq!(per_mark(3200, 0), Some(100));
    }
}
