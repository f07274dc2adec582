//! [`AloneTimes`]: how long kernels take if no collective or copy runs beside them.
//!
//! A kernel beside a collective takes longer. The workload must not contain that time: in the
//! replay, the kernel runs beside the collective again. A step repeats its kernels in every layer,
//! and many of their runs have nothing beside them.

use std::collections::{BTreeMap, HashMap};

use super::document::{GpuKernel, TraceEvent, TraceEventKind};

/// A run was alone if others ran beside it for at most this part of its time.
const MOST_SHARED: f64 = 0.01;

/// Runs that take at least this part of the time of another one do the same amount of work.
const SAME_WORK: f64 = 0.9;

/// Beside a collective, which leaves most of the GPU to it, computation takes at most so many times
/// as long: blocks that find no room start when others have ended. A larger difference means a
/// different amount of work.
const MOST_SLOWED_COMPUTATION: f64 = 2.0;

/// Beside computation, which leaves no room, a copy takes at most so many times as long. On two
/// H200 it was three times.
const MOST_SLOWED_COPY: f64 = 4.0;

/// The signatures of a kernel and of the next one in its stream. Kernels with the same grid can do
/// different amounts of work: some matrix products have a block for each multiprocessor, whatever
/// their size. What comes next tells them apart.
type KernelKey = (u64, Option<u64>);

/// How long the kernels of a trace would have taken alone.
pub(super) struct AloneTimes {
    /// For each event, what [`alone_time`] returns.
    times: Vec<Option<f64>>,
}

impl AloneTimes {
    /// Reads the kernels of a trace. `is_beside` tells those that run beside computation:
    /// collectives, and copies in other streams.
    pub(super) fn read(
        events: &[TraceEvent],
        is_beside: impl Fn(&TraceEvent, &GpuKernel) -> bool,
    ) -> AloneTimes {
        let shared = SharedTime::read(events, is_beside);
        let keys = keys(events);
        let mut times: HashMap<KernelKey, Vec<f64>> = HashMap::new();
        for (event, key) in events.iter().zip(&keys) {
            if let Some(key) = key
                && event.duration > 0.0
                && shared.is_alone(event)
            {
                times.entry(*key).or_default().push(event.duration);
            }
        }
        for of_kernel in times.values_mut() {
            of_kernel.sort_by(f64::total_cmp);
        }
        let mut of_events = Vec::with_capacity(events.len());
        for (event, key) in events.iter().zip(&keys) {
            let alone = key.and_then(|key| times.get(&key));
            of_events.push(alone.and_then(|alone| alone_time(alone, event, &shared)));
        }
        AloneTimes { times: of_events }
    }

    /// Returns about how long a kernel that computes would have taken alone, in microseconds. It is
    /// the event with this number.
    pub(super) fn of_computation(&self, number: usize, run: &TraceEvent) -> f64 {
        self.of(number, run, MOST_SLOWED_COMPUTATION)
    }

    /// Returns about how long a kernel that copies would have taken alone, in microseconds. It is
    /// the event with this number.
    pub(super) fn of_copy(&self, number: usize, run: &TraceEvent) -> f64 {
        self.of(number, run, MOST_SLOWED_COPY)
    }

    fn of(&self, number: usize, run: &TraceEvent, most_slowed: f64) -> f64 {
        match self.times[number] {
            Some(alone) if alone * most_slowed >= run.duration => alone,
            _ => run.duration,
        }
    }
}

/// Returns how long a run would have taken alone, from the times of its kernel in the runs that
/// were, in microseconds: the median of those that do the same amount of work as the longest one
/// that took no longer. `None` if all of them took longer, or took less by more than the time in
/// which others ran beside this one.
fn alone_time(alone: &[f64], run: &TraceEvent, shared: &SharedTime) -> Option<f64> {
    if shared.is_alone(run) {
        return Some(run.duration);
    }
    let longer = alone.partition_point(|time| *time <= run.duration);
    let longest = *alone[..longer].last()?;
    let shortest = (SAME_WORK * longest).max(run.duration - shared.part_of(run));
    let shorter = alone.partition_point(|time| *time < shortest);
    let same_work = alone.get(shorter..longer)?;
    same_work.get(same_work.len() / 2).copied()
}

/// Returns the key of each event that is a kernel with a signature.
fn keys(events: &[TraceEvent]) -> Vec<Option<KernelKey>> {
    let mut keys = vec![None; events.len()];
    let mut in_order: Vec<(usize, u64)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        if let TraceEventKind::Kernel(kernel) = &event.kind
            && let Some(signature) = kernel.signature
        {
            in_order.push((number, signature));
        }
    }
    in_order.sort_by(|one, other| events[one.0].begin.total_cmp(&events[other.0].begin));
    // From the last to the first, each kernel is the next one of that before it in its stream.
    let mut next_in_stream = BTreeMap::new();
    for (number, signature) in in_order.into_iter().rev() {
        let next = next_in_stream.insert(events[number].thread, signature);
        keys[number] = Some((signature, next));
    }
    keys
}

/// The time in which computation and something beside it ran, or two streams beside it. All streams
/// that compute count as one: what their kernels take longer beside each other is computation.
struct SharedTime {
    /// Intervals that do not overlap, in their order, in microseconds.
    intervals: Vec<SharedInterval>,
}

struct SharedInterval {
    begin: f64,
    end: f64,
    /// The length of all intervals before this one.
    before: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BusyStream {
    Computing,
    Beside(Option<u64>),
}

/// The begin or the end of a run.
struct Change {
    at: f64,
    begins: bool,
    stream: BusyStream,
}

impl SharedTime {
    fn read(
        events: &[TraceEvent],
        is_beside: impl Fn(&TraceEvent, &GpuKernel) -> bool,
    ) -> SharedTime {
        let mut shared = SharedTime {
            intervals: Vec::new(),
        };
        let mut running: BTreeMap<BusyStream, u64> = BTreeMap::new();
        let mut since = None;
        for change in changes(events, is_beside) {
            let of_stream = running.entry(change.stream).or_default();
            match change.begins {
                true => *of_stream += 1,
                false => *of_stream -= 1,
            }
            if *of_stream == 0 {
                running.remove(&change.stream);
            }
            match (since, running.len() >= 2) {
                (None, true) => since = Some(change.at),
                (Some(begin), false) => {
                    shared.push(begin, change.at);
                    since = None;
                }
                _ => {}
            }
        }
        shared
    }

    fn push(&mut self, begin: f64, end: f64) {
        let last = self.intervals.last();
        let before = last.map_or(0.0, |last| last.before + (last.end - last.begin));
        self.intervals.push(SharedInterval { begin, end, before });
    }

    /// Returns how much of the time until `time` was shared, in microseconds.
    fn until(&self, time: f64) -> f64 {
        let begun = self.intervals.partition_point(|one| one.begin <= time);
        let last = self.intervals[..begun].last();
        last.map_or(0.0, |last| last.before + (time.min(last.end) - last.begin))
    }

    /// Returns how much of a run's time was shared, in microseconds.
    fn part_of(&self, run: &TraceEvent) -> f64 {
        self.until(run.end()) - self.until(run.begin)
    }

    fn is_alone(&self, run: &TraceEvent) -> bool {
        self.part_of(run) <= MOST_SHARED * run.duration
    }
}

/// Returns the begin and the end of each run that takes time, in their order.
fn changes(
    events: &[TraceEvent],
    is_beside: impl Fn(&TraceEvent, &GpuKernel) -> bool,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for event in events {
        let TraceEventKind::Kernel(kernel) = &event.kind else {
            continue;
        };
        if event.begin >= event.end() {
            continue;
        }
        let stream = match is_beside(event, kernel) {
            true => BusyStream::Beside(event.thread),
            false => BusyStream::Computing,
        };
        for (at, begins) in [(event.begin, true), (event.end(), false)] {
            changes.push(Change { at, begins, stream });
        }
    }
    // At the same time, what ends comes before what begins.
    changes.sort_by(|one, other| {
        let by_time = one.at.total_cmp(&other.at);
        by_time.then(one.begins.cmp(&other.begins))
    });
    changes
}
