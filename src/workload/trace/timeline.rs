//! [`Timeline`]: what a rank did in a trace, and the operations of a workload that follow from it.

use std::collections::BTreeSet;

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

/// What a rank did, in the order in which it was started.
#[derive(Default)]
pub(super) struct Timeline {
    items: Vec<TimelineItem>,
    calls: usize,
}

enum TimelineItem {
    Compute(Micros),
    Copies {
        copies: MemoryCopies,
        /// Whether they run beside computation, in a stream of their own.
        beside: bool,
    },
    Call(Box<TracedCall>),
    /// Everything after this waits for the calls with these numbers.
    Wait(Vec<usize>),
}

impl Timeline {
    pub(super) fn compute(&mut self, time: Micros) {
        if time.0 > 0.0 {
            let time = Micros(time.0.min(MOST_TIME.0));
            self.items.push(TimelineItem::Compute(time));
        }
    }

    /// Adds copies, the long and the short ones each by themselves, to the stream that computes or beside it.
    pub(super) fn copies(&mut self, copies: &CopiesByLength, beside: bool) {
        for copies in copies.parts() {
            self.items.push(TimelineItem::Copies { copies, beside });
        }
    }

    /// Adds a call, and returns its number.
    pub(super) fn call(&mut self, call: Box<TracedCall>) -> usize {
        self.items.push(TimelineItem::Call(call));
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
                TimelineItem::Compute(time) => operations.compute("compute", Work::Compute(time)),
                TimelineItem::Copies { copies, beside } if beside => operations.beside(copies),
                TimelineItem::Copies { copies, .. } => {
                    operations.compute("copy", Work::Copies(copies));
                }
                TimelineItem::Wait(calls) => operations.wait(&calls),
                TimelineItem::Call(call) => {
                    if let Err(what) = operations.call(&call, world) {
                        unread.note(what);
                    }
                }
            }
        }
        operations.done
    }
}

/// The operations made of a timeline so far.
#[derive(Default)]
struct TraceOperations {
    done: Vec<Operation>,
    /// The operation of each call, if it has one.
    calls: Vec<Option<usize>>,
    /// The operations for which the next computation waits.
    awaited: BTreeSet<usize>,
    last_compute: Option<usize>,
    /// The last copies beside computation.
    last_beside: Option<usize>,
    streams: BTreeSet<String>,
}

impl TraceOperations {
    /// Adds work to the stream that computes, and a number to its name.
    fn compute(&mut self, name: &str, work: Work) {
        let after = std::mem::take(&mut self.awaited).into_iter().collect();
        let number = self.done.len() + 1;
        self.last_compute = Some(self.done.len());
        self.done.push(Operation {
            name: format!("{name} {number}"),
            stream: COMPUTE.to_owned(),
            after,
            work,
        });
    }

    /// Adds copies that run beside computation, after what has been computed.
    fn beside(&mut self, copies: MemoryCopies) {
        let number = self.done.len() + 1;
        self.last_beside = Some(self.done.len());
        self.done.push(Operation {
            name: format!("copy {number}"),
            stream: COPIES.to_owned(),
            after: self.last_compute.into_iter().collect(),
            work: Work::Copies(copies),
        });
    }

    fn wait(&mut self, calls: &[usize]) {
        let calls = calls.iter().filter_map(|call| *self.calls.get(*call)?);
        self.awaited.extend(calls);
    }

    /// Adds a call, which waits for the last computation and the last copy before it, and for the calls for which its rank waited
    /// since.
    fn call(&mut self, call: &TracedCall, world: &TraceWorld) -> Result<(), String> {
        let group = world.names(&call.group);
        self.calls.push(group.is_some().then_some(self.done.len()));
        let Some(group) = group else {
            let name = excerpt(&call.group_name);
            let collective = call.collective;
            return Err(format!(
                "{collective}: the process groups, such as '{name}', do not divide the ranks in one way"
            ));
        };
        let stream = self.stream(&call.group_name);
        let mut after = self.awaited.clone();
        after.extend(self.last_compute);
        after.extend(self.last_beside);
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
