//! [`Timeline`]: what a rank did in a trace, and the operations of a workload that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use super::{call::TracedCall, groups::TraceWorld, unread::Unread};
use crate::{
    units::Micros,
    visible::excerpt,
    workload::{
        limits::{MOST_OPERATIONS, MOST_STREAMS, MOST_TIME},
        memory_copies::{CopiesByLength, MemoryCopies},
        operation::{CollectiveCall, Operation, Work},
    },
};

/// The most characters of a process group's name in the name of its stream.
const MOST_GROUP_NAME: usize = 60;

/// The streams that are no process group's.
const COMPUTE: &str = "compute";
const COPIES: &str = "copies";
const OTHER_GROUPS: &str = "other groups";
const OTHER_STREAMS: usize = 3;

/// What a rank did, in the order in which it is replayed.
#[derive(Default)]
pub(super) struct Timeline {
    items: Vec<TimelineItem>,
    calls: usize,
}

enum TimelineItem {
    /// Work in the stream that computes, with when it ended.
    Compute(Work, f64),
    /// Copies beside computation, in a stream of their own, with when they began and ended.
    Beside(MemoryCopies, f64, f64),
    /// A call, with when it began on the GPU if that is known.
    Call(Box<TracedCall>, Option<f64>),
    /// Everything after this waits for the calls with these numbers.
    Wait(Vec<usize>),
}

impl Timeline {
    /// Adds computation that ended at this time, in microseconds.
    pub(super) fn compute(&mut self, time: Micros, ended: f64) {
        if time.0 > 0.0 {
            let time = Micros(time.0.min(MOST_TIME.0));
            self.items
                .push(TimelineItem::Compute(Work::Compute(time), ended));
        }
    }

    /// Adds copies in the stream that computes, the long and the short ones each by themselves.
    pub(super) fn copies(&mut self, copies: &CopiesByLength, ended: f64) {
        for copies in [copies.long(), copies.short()].into_iter().flatten() {
            self.items
                .push(TimelineItem::Compute(Work::Copies(copies), ended));
        }
    }

    /// Adds copies beside computation that began and ended at these times, the long and the short
    /// ones each by themselves.
    pub(super) fn copies_beside(&mut self, copies: &CopiesByLength, began: f64, ended: f64) {
        for copies in [copies.long(), copies.short()].into_iter().flatten() {
            self.items.push(TimelineItem::Beside(copies, began, ended));
        }
    }

    /// Adds a call that began on the GPU at this time, in microseconds, if that is known. Returns
    /// its number.
    pub(super) fn call(&mut self, call: Box<TracedCall>, began: Option<f64>) -> usize {
        self.items.push(TimelineItem::Call(call, began));
        self.calls += 1;
        self.calls - 1
    }

    pub(super) fn wait(&mut self, calls: Vec<usize>) {
        if !calls.is_empty() {
            self.items.push(TimelineItem::Wait(calls));
        }
    }

    /// Returns the operations, and notes in `unread` what cannot be one.
    pub(super) fn operations(self, world: &TraceWorld, unread: &mut Unread) -> Vec<Operation> {
        let mut operations = TraceOperations::default();
        for item in self.items {
            if operations.done.len() >= MOST_OPERATIONS {
                let what = format!("operations after the first {MOST_OPERATIONS}");
                unread.note(what);
                continue;
            }
            match item {
                TimelineItem::Compute(work, ended) => operations.compute(work, ended),
                TimelineItem::Beside(copies, began, ended) => {
                    operations.beside(copies, began, ended);
                }
                TimelineItem::Wait(calls) => operations.wait(&calls),
                TimelineItem::Call(call, began) => {
                    if let Err(what) = operations.call(&call, began, world) {
                        unread.note(what);
                    }
                }
            }
        }
        operations.done
    }
}

/// Operations of one stream, each with the latest end of all up to it.
#[derive(Default)]
struct EndedOperations(Vec<(f64, usize)>);

impl EndedOperations {
    fn add(&mut self, ended: f64, operation: usize) {
        let latest = self.0.last().map_or(ended, |(latest, _)| latest.max(ended));
        self.0.push((latest, operation));
    }

    /// Returns the last operation that had ended at this time, or the last one if no time is given.
    fn last_before(&self, time: Option<f64>) -> Option<usize> {
        let ended = match time {
            Some(time) => self.0.partition_point(|(latest, _)| *latest <= time),
            None => self.0.len(),
        };
        self.0[..ended].last().map(|(_, operation)| *operation)
    }
}

/// The operations made of a timeline so far.
#[derive(Default)]
struct TraceOperations {
    done: Vec<Operation>,
    /// The operation of each call, if it has one.
    calls: Vec<Option<usize>>,
    /// The last operation of each stream for which the next computation waits.
    awaited: BTreeMap<String, usize>,
    computed: EndedOperations,
    copied_beside: EndedOperations,
    streams: BTreeSet<String>,
}

impl TraceOperations {
    /// Adds work to the stream that computes.
    fn compute(&mut self, work: Work, ended: f64) {
        let kind = match work {
            Work::Copies(_) => "copy",
            _ => "compute",
        };
        let after: BTreeSet<usize> = std::mem::take(&mut self.awaited).into_values().collect();
        let number = self.done.len() + 1;
        self.computed.add(ended, self.done.len());
        self.done.push(Operation {
            name: format!("{kind} {number}"),
            stream: COMPUTE.to_owned(),
            after: after.into_iter().collect(),
            work,
        });
    }

    /// Adds copies that run beside computation, after what was computed before they began.
    fn beside(&mut self, copies: MemoryCopies, began: f64, ended: f64) {
        let after = self.computed.last_before(Some(began));
        let number = self.done.len() + 1;
        self.copied_beside.add(ended, self.done.len());
        self.done.push(Operation {
            name: format!("copy {number}"),
            stream: COPIES.to_owned(),
            after: after.into_iter().collect(),
            work: Work::Copies(copies),
        });
    }

    fn wait(&mut self, calls: &[usize]) {
        for operation in calls.iter().filter_map(|call| *self.calls.get(*call)?) {
            let stream = self.done[operation].stream.clone();
            let last = self.awaited.entry(stream).or_default();
            *last = operation.max(*last);
        }
    }

    /// Adds a call, which waits for what was computed and copied before it began, and for the calls
    /// for which its rank waited since.
    fn call(
        &mut self,
        call: &TracedCall,
        began: Option<f64>,
        world: &TraceWorld,
    ) -> Result<(), String> {
        let group = world.names(&call.group);
        self.calls.push(group.is_some().then_some(self.done.len()));
        let Some(group) = group else {
            let name = excerpt(&call.group_name);
            let collective = call.collective;
            return Err(format!(
                "{collective}: the process groups, such as '{name}', do not divide the ranks in \
                 one way"
            ));
        };
        let stream = self.stream(&call.group_name);
        let mut after: BTreeSet<usize> = self.awaited.values().copied().collect();
        after.extend(self.computed.last_before(began));
        after.extend(self.copied_beside.last_before(began));
        // The operations of one stream run in their order anyway.
        after.retain(|before| self.done[*before].stream != stream);
        let number = self.done.len() + 1;
        self.done.push(Operation {
            name: format!("{} {number}", call.collective),
            stream,
            after: after.into_iter().collect(),
            work: Work::Collective(CollectiveCall {
                collective: call.collective,
                size: call.size,
                dtype: call.dtype,
                redop: call.redop,
                root: call.root,
                group,
                traffic: call.traffic,
            }),
        });
        Ok(())
    }

    /// Returns the stream of a process group. Groups beyond the limit of streams share one.
    fn stream(&mut self, group: &str) -> String {
        // A name in a workload's file has no control characters.
        let printed = group.chars().filter(|letter| !letter.is_control());
        let name = format!(
            "group {}",
            printed.take(MOST_GROUP_NAME).collect::<String>()
        );
        if self.streams.contains(&name) || self.streams.len() < MOST_STREAMS - OTHER_STREAMS {
            self.streams.insert(name.clone());
            return name;
        }
        OTHER_GROUPS.to_owned()
    }
}
